//! The reference pipeline that the demo and the drills run on.
