//! Faults inside a handler. Wrapped around the sandbox's handlers in sandbox contexts; inert unless
//! a drill arms them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::crash::ARMED;
use crate::pipeline::Program;
use crate::pipeline::consumer::{Handler, Outcome, Received, VersionPolicy};
use crate::store::BusinessTx;

/// `return(throw)`: the handler fails after its statements, before the commit.
pub const HANDLER_THROWS: &str = "handler.throws";
/// `return(throw)`: the handler takes [`SLOW`] longer, as one that calls somebody else.
pub const HANDLER_IS_SLOW: &str = "handler.is_slow";

/// How much longer a slow handler takes: so long that what it waits for is most of its time even on a
/// machine with nothing to spare.
pub const SLOW: Duration = Duration::from_secs(1);

/// A handler that can be made to fail.
struct Faulty(Arc<dyn Handler>);

/// The same program, each handler of which can be made to fail.
pub fn around(program: Program) -> Program {
    let faulty = |(consumer, handler)| {
        let faulty: Arc<dyn Handler> = Arc::new(Faulty(handler));
        (consumer, faulty)
    };
    Program {
        handlers: program.handlers.into_iter().map(faulty).collect(),
        ..program
    }
}

#[async_trait]
impl Handler for Faulty {
    async fn handle(&self, event: &Received, tx: &mut dyn BusinessTx) -> Outcome {
        if ARMED.throws(HANDLER_IS_SLOW) {
            // Before its statements: it holds no lock that others wait for.
            tokio::time::sleep(SLOW).await;
        }
        let outcome = self.0.handle(event, tx).await;
        if matches!(outcome, Outcome::Done) && ARMED.throws(HANDLER_THROWS) {
            return Outcome::Transient(
                "thrown on purpose after the handler's statements".to_owned(),
            );
        }
        outcome
    }

    fn policy(&self, event: &Received) -> VersionPolicy {
        self.0.policy(event)
    }

    fn version(&self) -> &'static str {
        self.0.version()
    }
}
