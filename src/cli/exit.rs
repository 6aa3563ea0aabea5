//! What the exit code says (product.md section 8). A script decides by it alone.

use crate::model::operation::ItemState;

/// How a command ended. `Ord` is by how much a caller should care: the worst of several wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// 0: done, or nothing to report.
    Fine = 0,
    /// 1: a fault of redrive itself, or of writing the answer.
    Internal = 1,
    /// 2: wrong usage, an unknown id, or a configuration that cannot be used.
    Usage = 2,
    /// 3: something was found: unhealthy, a check that failed, a replay that died again.
    Findings = 3,
    /// 4: refused by a guard; nothing was done.
    Refused = 4,
    /// 5: a database or the broker could not be asked; the answer is not complete.
    Unreachable = 5,
    /// 6: some items were done and some were not.
    Partial = 6,
    /// 7: it is not known what became of it.
    Unknown = 7,
}

impl Exit {
    /// Every code with its meaning, for help and docs.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Fine, "fine"),
        (
            Self::Internal,
            "internal error, or the answer could not be written",
        ),
        (
            Self::Usage,
            "wrong usage, unknown id, unusable configuration",
        ),
        (
            Self::Findings,
            "findings: unhealthy, a failed check, a replay that died again",
        ),
        (Self::Refused, "refused by a guard; nothing was done"),
        (
            Self::Unreachable,
            "a dependency is unreachable; the answer is not complete",
        ),
        (Self::Partial, "partly done"),
        (Self::Unknown, "outcome unknown"),
    ];

    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What an operation's items mean together. `Published` is fine while nobody waited for the proof
    /// (`waited` false), and unknown after a wait that ended without one.
    pub fn of_items(states: impl IntoIterator<Item = ItemState>, waited: bool) -> Self {
        let exits: Vec<Self> = states
            .into_iter()
            .map(|state| Self::of_item(state, waited))
            .collect();
        // Unknown is the loudest: a script must not repeat what may have been sent. A death says more
        // than a refusal.
        let loudest = [Self::Unknown, Self::Findings, Self::Refused]
            .into_iter()
            .find(|exit| exits.contains(exit));
        match loudest {
            None => Self::Fine,
            Some(Self::Unknown) => Self::Unknown,
            Some(_) if exits.contains(&Self::Fine) => Self::Partial,
            Some(exit) => exit,
        }
    }

    fn of_item(state: ItemState, waited: bool) -> Self {
        match state {
            ItemState::Consumed | ItemState::Applied => Self::Fine,
            ItemState::DiedAgain => Self::Findings,
            ItemState::Unroutable | ItemState::Refused => Self::Refused,
            ItemState::Published => {
                if waited {
                    Self::Unknown
                } else {
                    Self::Fine
                }
            }
            ItemState::Reserved | ItemState::Publishing | ItemState::Unknown => Self::Unknown,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[ItemState::Consumed], Exit::Fine)]
    #[case(&[ItemState::Applied], Exit::Fine)]
    #[case(&[ItemState::DiedAgain], Exit::Findings)]
    #[case(&[ItemState::Unroutable], Exit::Refused)]
    #[case(&[ItemState::Published], Exit::Unknown)]
    #[case(&[ItemState::Unknown], Exit::Unknown)]
    #[case(&[ItemState::Consumed, ItemState::Consumed, ItemState::Consumed, ItemState::Unroutable, ItemState::Refused], Exit::Partial)]
    #[case(&[ItemState::Consumed, ItemState::Unknown], Exit::Unknown)]
    #[case(&[ItemState::Refused, ItemState::DiedAgain], Exit::Findings)]
    fn x_09_every_outcome_has_its_code(#[case] states: &[ItemState], #[case] exit: Exit) {
        assert_eq!(Exit::of_items(states.iter().copied(), true), exit);
    }

    #[test]
    fn published_without_a_wait_is_fine() {
        assert_eq!(Exit::of_items([ItemState::Published], false), Exit::Fine);
    }

    #[test]
    fn codes_are_those_of_the_manual() {
        for (code, (exit, _)) in (0_u8..).zip(Exit::ALL) {
            assert_eq!(exit.code(), code);
        }
    }
}
