//! Placing an order under the client's idempotency key, and cancelling one. A request that is repeated
//! finds its order and makes no second event. The answer is *accepted*: whether the order is confirmed
//! is told by its result event.

use crate::base::crash::CrashPoints;
use crate::base::digest::sha256_hex;
use crate::model::ids::SagaId;
use crate::pipeline::saga_coordinator::{NewInstance, Recorded, SagaError, cancel, start};
use crate::store::{BusinessTx, Store, StoreError, StoreResult, Value};

use super::event::{Customer, Order};
use super::order_saga::OrderSaga;

/// Crash point: the order is written, its event is not.
pub const AFTER_INSERT: &str = "order.after_insert";
/// Crash point: everything is written, nothing is committed.
const BEFORE_COMMIT: &str = "order.before_commit";
/// The first order's number.
pub const FIRST_ORDER: i64 = 8_800;
/// Tries to find a free number, or to get past a lock.
const TRIES: u32 = 10;

const FIND: &str = "SELECT order_no, saga_id, state, amount_cents, request_sha256 FROM orders \
     WHERE idempotency_key = ?";
const LAST: &str = "SELECT COALESCE(MAX(order_no), 0) FROM orders";
const INSERT: &str = "INSERT INTO orders (order_no, idempotency_key, request_sha256, saga_id, state, \
     amount_cents) VALUES (?, ?, ?, ?, 'pending_inventory', ?)";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRequest {
    /// The client's key: the same for every try of one request.
    pub idempotency_key: String,
    /// The order's number; `None`: the next free one.
    pub order_no: Option<i64>,
    /// Who orders.
    pub email: String,
    /// What; `None`: a gift.
    pub sku: Option<String>,
    /// How many.
    pub quantity: i64,
    /// Price of all of it.
    pub amount_cents: i64,
}

impl OrderRequest {
    fn order(&self, order_no: i64) -> Order {
        Order {
            order_no,
            customer: Customer {
                email: self.email.clone(),
            },
            sku: self.sku.clone(),
            quantity: self.quantity,
            amount_cents: self.amount_cents,
            reason: None,
        }
    }
}

/// What was asked for, whole: the same for a repetition, and for nothing else.
fn digest(order: &Order) -> String {
    let asked = (
        order.order_no,
        &order.customer.email,
        &order.sku,
        order.quantity,
        order.amount_cents,
    );
    // `Debug` quotes texts, so that no two orders are written alike.
    sha256_hex(format!("{asked:?}").as_bytes())
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The order's number.
    pub order_no: i64,
    /// Its saga.
    pub saga_id: SagaId,
    /// `pending_inventory` at first; what it is by now when the request is repeated.
    pub state: String,
    /// False when the key had an order already.
    pub is_new: bool,
}

/// Why an order was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlaceError {
    /// The same key with another order: never taken for a repetition.
    #[error(
        "key {key} belongs to another request: order {order_no} over {amount_cents} cents; \
         take a new key for a new order"
    )]
    OtherContent {
        /// The key.
        key: String,
        /// Its order.
        order_no: i64,
        /// Its amount.
        amount_cents: i64,
    },
    /// What the database or the saga said.
    #[error(transparent)]
    Saga(#[from] SagaError),
}

impl From<StoreError> for PlaceError {
    fn from(error: StoreError) -> Self {
        Self::Saga(error.into())
    }
}

/// Places an order: order, saga and `order.created` in one transaction of the orders service's database.
///
/// # Errors
/// [`PlaceError::OtherContent`] for a key that was used for something else; else what the database said.
pub async fn place_order(
    orders: &dyn Store,
    saga: &OrderSaga,
    request: &OrderRequest,
) -> Result<Accepted, PlaceError> {
    let mut tried = 1;
    loop {
        let error = match try_place(orders, saga, request).await {
            Err(PlaceError::Saga(SagaError::Store(error))) if tried < TRIES => error,
            done => return done,
        };
        let is_worth_it = matches!(
            error,
            StoreError::Contended { .. } | StoreError::Failed { .. }
        );
        if !is_worth_it {
            return Err(error.into());
        }
        // A key or number that somebody else took meanwhile is found, or passed by, the next time.
        tried += 1;
    }
}

async fn try_place(
    orders: &dyn Store,
    saga: &OrderSaga,
    request: &OrderRequest,
) -> Result<Accepted, PlaceError> {
    let mut tx = orders.begin().await?;
    if let Some(found) = find(tx.as_mut(), request).await? {
        tx.rollback().await?;
        return found;
    }
    let order_no = match request.order_no {
        Some(order_no) => order_no,
        None => next_number(tx.as_mut()).await?,
    };
    let saga_id = SagaId::generate();
    let order = request.order(order_no);
    write(
        tx.as_mut(),
        saga,
        (&order, &request.idempotency_key),
        &saga_id,
    )
    .await?;
    points().reach(BEFORE_COMMIT);
    tx.commit().await?;
    Ok(Accepted {
        order_no,
        saga_id,
        state: "pending_inventory".to_owned(),
        is_new: true,
    })
}

/// Writes an order with its saga and first event, within the caller's transaction.
pub(super) async fn write(
    tx: &mut dyn BusinessTx,
    saga: &OrderSaga,
    (order, key): (&Order, &str),
    saga_id: &SagaId,
) -> Result<(), SagaError> {
    let row = [
        Value::Int(order.order_no),
        Value::Text(key.to_owned()),
        Value::Text(digest(order)),
        Value::Text(saga_id.to_string()),
        Value::Int(order.amount_cents),
    ];
    tx.execute(INSERT, &row).await?;
    points().reach(AFTER_INSERT);
    let program = |problem: String| SagaError::Program {
        saga_id: saga_id.clone(),
        problem,
    };
    let new = NewInstance {
        saga_id: saga_id.clone(),
        business_key: order.order_no.to_string(),
        data: serde_json::to_string(order).map_err(|error| program(error.to_string()))?,
    };
    if start(tx, saga, &new).await? {
        Ok(())
    } else {
        Err(program(format!(
            "a saga of order {} is there already",
            order.order_no
        )))
    }
}

/// The crash points of a place that only a sandbox reaches.
const fn points() -> CrashPoints {
    CrashPoints::new(true)
}

async fn find(
    tx: &mut dyn BusinessTx,
    request: &OrderRequest,
) -> StoreResult<Option<Result<Accepted, PlaceError>>> {
    let key = [Value::Text(request.idempotency_key.clone())];
    let row = tx.fetch_one(FIND, &key).await?;
    let Some(
        [
            Value::Int(order_no),
            Value::Text(saga_id),
            Value::Text(state),
            Value::Int(amount),
            Value::Text(sha256),
        ],
    ) = row.as_deref()
    else {
        return Ok(None);
    };
    // Whoever names no number means whichever the order got.
    let same = request.order(request.order_no.unwrap_or(*order_no));
    if *sha256 != digest(&same) {
        return Ok(Some(Err(PlaceError::OtherContent {
            key: request.idempotency_key.clone(),
            order_no: *order_no,
            amount_cents: *amount,
        })));
    }
    Ok(Some(Ok(Accepted {
        order_no: *order_no,
        saga_id: SagaId::new(saga_id.clone()),
        state: state.clone(),
        is_new: false,
    })))
}

/// The number after the highest one in the table.
pub(super) async fn next_number(tx: &mut dyn BusinessTx) -> StoreResult<i64> {
    let found = tx.fetch_one(LAST, &[]).await?;
    Ok(match found.as_deref() {
        Some([Value::Int(last)]) => FIRST_ORDER.max(last + 1),
        _ => FIRST_ORDER,
    })
}

/// Cancels an order: its saga turns round, what was done is undone. A confirmed one stays confirmed: to
/// send goods back is another business.
///
/// # Errors
/// What the database said.
pub async fn cancel_order(
    orders: &dyn Store,
    saga: &OrderSaga,
    order_no: i64,
    why: &str,
) -> Result<Recorded, SagaError> {
    let mut tx = orders.begin().await?;
    match cancel(tx.as_mut(), saga, &order_no.to_string(), why).await {
        Ok(recorded) => {
            tx.commit().await?;
            Ok(recorded)
        }
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}
