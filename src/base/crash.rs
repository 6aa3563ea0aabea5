//! Named crash points: a drill makes the process die exactly there, to show what is left behind and
//! who recovers it (cases B-14, R-05).
//!
//! They exist only with the `drill` feature and act only where the context is a sandbox:
//! `FAILPOINTS="replay.after_confirm=return(abort)"` ends the process as `kill -9` would, without
//! a destructor. Any other action of the `fail` crate works too: `pause` stops there for ever,
//! `57*off->return(abort)` dies the fifty-eighth time.
//!
//! A point of the name `guard.…` is not a place but a guard: `return(off)` takes it away, so that a
//! test can show which drill turns red without it.

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

        /// Stops or dies here when the point is armed. The log names the point first, so that who
        /// waits for a process at a `pause` knows that it has come there.
        pub fn reach(self, name: &'static str) {
            if !self.may_act() {
                return;
            }
            if fail::list().iter().any(|(armed, _)| armed == name) {
                tracing::warn!(point = name, "crash point reached");
            }
            // `return(abort)`: die like a killed process. Other values of a return mean nothing here.
            if said(name).as_deref() == Some("abort") {
                std::process::abort();
            }
        }

        /// True when a test has taken the guard `name` away with `return(off)`.
        pub fn is_off(self, name: &'static str) -> bool {
            self.may_act() && said(name).as_deref() == Some("off")
        }

        fn may_act(self) -> bool {
            self.is_sandbox && IS_ARMED.load(Ordering::Acquire)
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

    /// Without the `drill` feature nothing stops.
    pub const fn reach(self, _name: &'static str) {}

    /// Without the `drill` feature every guard stands.
    pub const fn is_off(self, _name: &'static str) -> bool {
        false
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

    #[test]
    fn an_action_nobody_knows_arms_nothing() {
        let points = CrashPoints::new(true);
        points.arm("test.nonsense", "explode");
        points.reach("test.nonsense");
    }
}
