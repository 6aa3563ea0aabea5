//! Named crash points: a drill makes the process die exactly there, to show what is left behind and
//! who recovers it (cases B-14, R-05).
//!
//! They exist only with the `drill` feature and act only where the context is a sandbox:
//! `FAILPOINTS="replay.after_confirm=return(abort)"` ends the process as `kill -9` would, without
//! a destructor. `return(stop)` stops the process as `kill -STOP` does, until somebody continues it;
//! `return(hold)` stops only the worker that came there, for pipelines inside this process (see
//! [`held`]). Any other action of the `fail` crate works too: `pause` stops there for ever,
//! `57*off->return(abort)` dies the fifty-eighth time.
//!
//! A point of the name `guard.…` is not a place but a guard: `return(off)` takes it away, so that a
//! test can show which drill turns red without it. A release build has no such switch.

/// The crash points of one context. Without effect unless the context is a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoints {
    is_sandbox: bool,
}

impl CrashPoints {
    /// Points that may act when `is_sandbox`.
    pub const fn new(is_sandbox: bool) -> Self {
        Self { is_sandbox }
    }
}

/// The points for layers that do not know their context: only a sandbox can have armed one.
pub const ARMED: CrashPoints = CrashPoints::new(true);

#[cfg(feature = "drill")]
mod armed {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::CrashPoints;

    /// Whether any point was ever armed: asking then costs one load where none was.
    static IS_ARMED: AtomicBool = AtomicBool::new(false);

    impl CrashPoints {
        /// Arms what the environment variable `FAILPOINTS` names: `point=action;point=action`.
        pub fn arm_from_environment(self) {
            if let Ok(points) = std::env::var("FAILPOINTS") {
                for (name, action) in points.split(';').filter_map(|point| point.split_once('=')) {
                    self.arm(name.trim(), action.trim());
                }
            }
        }

        /// Arms one point of this process.
        pub fn arm(self, name: &str, action: &str) {
            if !self.is_sandbox {
                return;
            }
            match fail::cfg(name, action) {
                Ok(()) => IS_ARMED.store(true, Ordering::Release),
                Err(problem) => {
                    tracing::warn!(point = name, problem, "this crash point is not armed");
                }
            }
        }

        /// Takes every point of this process back, and ends who stands at one. Guards stay as they
        /// are.
        pub fn disarm(self) {
            if !self.may_act() {
                return;
            }
            for (name, _) in fail::list() {
                if !name.starts_with("guard.") {
                    fail::remove(&name);
                    super::held::end(&name);
                }
            }
        }

        /// Stops or dies here when the point is armed. The log names the point first, so that who
        /// waits for a process at a `pause` knows that it has come there.
        pub fn reach(self, name: &'static str) {
            if !self.may_act() {
                return;
            }
            if fail::list().iter().any(|(armed, _)| armed == name) {
                tracing::warn!(point = name, "crash point reached");
            }
            // Other values of a return mean nothing here.
            match said(name).as_deref() {
                Some("abort") => std::process::abort(),
                Some("stop") => stop(),
                Some("hold") => super::held::wait(name),
                _ => {}
            }
        }

        /// True when the point says `return(throw)`: whoever asks fails there.
        pub fn throws(self, name: &'static str) -> bool {
            self.may_act() && said(name).as_deref() == Some("throw")
        }

        /// True when a test has taken the guard `name` away with `return(off)`. Test builds only.
        pub fn is_off(self, name: &'static str) -> bool {
            cfg!(debug_assertions) && self.may_act() && said(name).as_deref() == Some("off")
        }

        fn may_act(self) -> bool {
            self.is_sandbox && IS_ARMED.load(Ordering::Acquire)
        }
    }

    /// Stops this process; it goes on when it is continued.
    ///
    /// The signal goes to this very thread: sent to the process, another thread takes it, and this one
    /// may go past the point before the stop reaches it.
    fn stop() {
        let signal = rustix::process::Signal::STOP.as_raw();
        if let Err(error) = signal_hook::low_level::raise(signal) {
            tracing::warn!(%error, "this process could not stop itself");
        }
    }

    /// What the point's action returned; acts on any other action.
    fn said(name: &'static str) -> Option<String> {
        fail::eval(name, |argument| argument).flatten()
    }
}

#[cfg(not(feature = "drill"))]
impl CrashPoints {
    /// Without the `drill` feature nothing is armed.
    pub const fn arm_from_environment(self) {}

    /// Without the `drill` feature nothing is armed.
    pub const fn arm(self, _name: &str, _action: &str) {}

    /// Without the `drill` feature nothing is armed.
    pub const fn disarm(self) {}

    /// Without the `drill` feature nothing stops.
    pub const fn reach(self, _name: &'static str) {}

    /// Without the `drill` feature nothing throws.
    pub const fn throws(self, _name: &'static str) -> bool {
        false
    }

    /// Without the `drill` feature every guard stands.
    pub const fn is_off(self, _name: &'static str) -> bool {
        false
    }
}

pub mod held {
    //! Workers of this process that stand at a crash point (`return(hold)`), until they are released
    //! or ended. What ends unwinds from the point: nothing after it runs, as in a killed process.

    use std::collections::BTreeMap;
    use std::panic::resume_unwind;
    use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    /// What a worker that unwinds from a point carries: who catches it knows that it was ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ended;

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Order {
        Wait,
        Go,
        End,
    }

    static HELD: Mutex<BTreeMap<&'static str, Order>> = Mutex::new(BTreeMap::new());
    static CHANGED: Condvar = Condvar::new();

    fn held() -> MutexGuard<'static, BTreeMap<&'static str, Order>> {
        HELD.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands at a point. Other tasks of the runtime go on; it must have several threads.
    #[cfg(feature = "drill")]
    pub(super) fn wait(name: &'static str) {
        let order = tokio::task::block_in_place(|| {
            let mut all = held();
            all.insert(name, Order::Wait);
            loop {
                match all.get(name) {
                    Some(Order::Wait) => {
                        all = CHANGED.wait(all).unwrap_or_else(PoisonError::into_inner);
                    }
                    Some(order) => {
                        let order = *order;
                        all.remove(name);
                        return order;
                    }
                    None => return Order::Go,
                }
            }
        });
        if order == Order::End {
            resume_unwind(Box::new(Ended));
        }
    }

    /// True while somebody stands at the point.
    pub fn is_at(name: &str) -> bool {
        held().get(name) == Some(&Order::Wait)
    }

    /// Lets whoever stands at the point go on.
    pub fn release(name: &str) {
        say(name, Order::Go);
    }

    /// Ends whoever stands at the point.
    pub fn end(name: &str) {
        say(name, Order::End);
    }

    fn say(name: &str, order: Order) {
        if let Some(stands) = held().get_mut(name) {
            *stands = order;
        }
        CHANGED.notify_all();
    }
}

#[cfg(all(test, feature = "drill"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_sandbox_can_lose_a_guard() {
        let (sandbox, production) = (CrashPoints::new(true), CrashPoints::new(false));
        production.arm("guard.test", "return(off)");
        assert!(!sandbox.is_off("guard.test"), "production arms nothing");
        sandbox.arm("guard.test", "1*off->return(off)");
        assert!(!production.is_off("guard.test"));
        assert!(!sandbox.is_off("guard.test"), "not the first time");
        assert!(sandbox.is_off("guard.test"));
        assert!(!sandbox.is_off("guard.other"));
        sandbox.reach("guard.test");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_held_goes_on_when_released_and_unwinds_when_ended() {
        let points = CrashPoints::new(true);
        points.arm("test.hold", "return(hold)");
        let tasks = crate::base::tasks::Tasks::new();
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(1));
        for is_ended in [false, true] {
            let worker = tasks.spawn(async move { points.reach("test.hold") });
            while !held::is_at("test.hold") {
                ticks.tick().await;
            }
            if is_ended {
                held::end("test.hold");
                let panic = worker.await.expect_err("unwound").into_panic();
                assert!(panic.is::<held::Ended>());
            } else {
                held::release("test.hold");
                worker.await.expect("went on");
            }
        }
    }

    #[test]
    fn an_action_nobody_knows_arms_nothing() {
        let points = CrashPoints::new(true);
        points.arm("test.nonsense", "explode");
        points.reach("test.nonsense");
    }
}
