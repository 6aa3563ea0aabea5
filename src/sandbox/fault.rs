//! Which orders go wrong, and how. Decided by the seed and the order's number alone, so that a run
//! with the same seed meets the same faults however the workers are timed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What goes wrong with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The payload has no `sku`: consumer 4.2.0 could not read it, 4.2.1 can.
    NoSku,
    /// The sku is in no catalogue: every delivery fails; only a repair helps.
    UnknownSku,
    /// Too little stock: a business rejection with its result event.
    OutOfStock,
    /// The first try fails, the second works.
    FlakyOnce,
    /// The card processor is away until an operator replays.
    ProcessorDown,
    /// The card is refused: a business rejection that compensates the reservation.
    CardRefused,
    /// A second event goes where no queue listens.
    Unaddressed,
    /// The card processor charges, and its answer is lost: the outcome is unknown.
    AnswerLost,
    /// The customer changes their mind at once.
    Cancelled,
}

/// Orders of a thousand that get a fault, in this order.
const PER_MILLE: [(u32, Fault); 9] = [
    (15, Fault::NoSku),
    (20, Fault::UnknownSku),
    (30, Fault::OutOfStock),
    (80, Fault::FlakyOnce),
    (12, Fault::ProcessorDown),
    (25, Fault::CardRefused),
    (6, Fault::Unaddressed),
    (15, Fault::AnswerLost),
    (10, Fault::Cancelled),
];

/// Chance: none, or a seed's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(Option<u64>);

impl Chance {
    /// Nothing goes wrong by itself: for drills and benches, which do the harm.
    pub const NONE: Self = Self(None);

    /// What the seed says.
    pub const fn of(seed: u64) -> Self {
        Self(Some(seed))
    }

    /// The fault of order `number`.
    pub fn fault_of(self, number: i64) -> Fault {
        let Some(seed) = self.0 else {
            return Fault::None;
        };
        let mut draw = order_rng(seed, number).random_range(0..1000_u32);
        for (share, fault) in PER_MILLE {
            if draw < share {
                return fault;
            }
            draw -= share;
        }
        Fault::None
    }
}

/// Chance for everything else about order `number`.
pub fn order_rng(seed: u64, number: i64) -> StdRng {
    StdRng::seed_from_u64(seed ^ number.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_a_run_and_most_orders_are_well() {
        let run =
            |seed| -> Vec<Fault> { (0..1000).map(|n| Chance::of(seed).fault_of(n)).collect() };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        for (_, fault) in PER_MILLE {
            assert!(run(7).contains(&fault), "{fault:?} never happens");
        }
        let well = run(7)
            .into_iter()
            .filter(|fault| *fault == Fault::None)
            .count();
        assert!((700..900).contains(&well), "{well}");
    }
}
