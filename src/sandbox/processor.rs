//! The card processor: it charges once per key, and can be told to misbehave for one order. Its ledger
//! commits with the payment, since one database is all the sandbox needs; an answer that was lost is
//! modelled by the ledger having a charge the payment does not know of.

use crate::store::{BusinessTx, Store, StoreResult, Value};

/// What the processor does to one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorFault {
    /// Charges, and its answer is lost.
    AnswerLost,
    /// Does not charge, and its answer is lost.
    RequestLost,
    /// As [`Self::AnswerLost`], and it cannot be asked afterwards either.
    Away,
    /// Answers 502.
    Down,
    /// Refuses the card.
    Refuses,
    /// Refuses to give the money back.
    RefusesRefund,
}

impl ProcessorFault {
    const ALL: [Self; 6] = [
        Self::AnswerLost,
        Self::RequestLost,
        Self::Away,
        Self::Down,
        Self::Refuses,
        Self::RefusesRefund,
    ];

    /// The word in `processor_faults`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AnswerLost => "answer_lost",
            Self::RequestLost => "request_lost",
            Self::Away => "away",
            Self::Down => "down",
            Self::Refuses => "refuses",
            Self::RefusesRefund => "refuses_refund",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.word() == word)
    }

    /// True for what concerns a charge.
    pub(super) const fn is_about_charge(self) -> bool {
        !matches!(self, Self::RefusesRefund)
    }
}

const SET_FAULT: &str =
    "INSERT INTO processor_faults (order_no, fault, times_left) VALUES (?, ?, ?)";
const CLEAR_FAULT: &str = "DELETE FROM processor_faults WHERE order_no = ?";
const FAULT: &str = "SELECT fault, times_left FROM processor_faults WHERE order_no = ?";
const USE_FAULT: &str =
    "UPDATE processor_faults SET times_left = times_left - 1 WHERE order_no = ? AND times_left > 0";
const LEDGER: &str = "SELECT kind FROM processor_ledger WHERE idempotency_key = ?";
const ENTER: &str = "INSERT INTO processor_ledger (idempotency_key, order_no, kind, amount_cents) \
     VALUES (?, ?, ?, ?)";

/// Tells the processor what to do to an order, so many times; `None`: nothing any more. In the payment
/// service's database.
///
/// # Errors
/// What the database said.
pub async fn set_fault(
    payment: &dyn Store,
    order_no: i64,
    fault: Option<(ProcessorFault, u32)>,
) -> StoreResult<()> {
    let mut tx = payment.begin().await?;
    put_fault(tx.as_mut(), order_no, fault).await?;
    tx.commit().await
}

async fn put_fault(
    tx: &mut dyn BusinessTx,
    order_no: i64,
    fault: Option<(ProcessorFault, u32)>,
) -> StoreResult<()> {
    tx.execute(CLEAR_FAULT, &[Value::Int(order_no)]).await?;
    if let Some((fault, times)) = fault {
        let row = [
            Value::Int(order_no),
            Value::Text(fault.word().to_owned()),
            Value::Int(i64::from(times)),
        ];
        tx.execute(SET_FAULT, &row).await?;
    }
    Ok(())
}

/// The fault set for an order, while it has times left.
pub(super) async fn fault_of(
    tx: &mut dyn BusinessTx,
    order_no: i64,
) -> StoreResult<Option<ProcessorFault>> {
    let row = tx.fetch_one(FAULT, &[Value::Int(order_no)]).await?;
    Ok(match row.as_deref() {
        Some([Value::Text(word), Value::Int(left)]) if *left > 0 => ProcessorFault::from_word(word),
        _ => None,
    })
}

/// One time less.
pub(super) async fn use_fault(tx: &mut dyn BusinessTx, order_no: i64) -> StoreResult<()> {
    tx.execute(USE_FAULT, &[Value::Int(order_no)]).await?;
    Ok(())
}

/// Whether the processor has done something under a key.
pub(super) async fn knows(tx: &mut dyn BusinessTx, key: &str) -> StoreResult<bool> {
    let row = tx.fetch_one(LEDGER, &[Value::Text(key.to_owned())]).await?;
    Ok(row.is_some())
}

/// Charges or gives back, once per key: the primary key refuses a second time.
pub(super) async fn enter(
    tx: &mut dyn BusinessTx,
    key: &str,
    order_no: i64,
    (kind, amount_cents): (&str, i64),
) -> StoreResult<()> {
    if knows(tx, key).await? {
        return Ok(());
    }
    let row = [
        Value::Text(key.to_owned()),
        Value::Int(order_no),
        Value::Text(kind.to_owned()),
        Value::Int(amount_cents),
    ];
    tx.execute(ENTER, &row).await?;
    Ok(())
}
