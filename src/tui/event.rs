//! What reaches `update`, what it asks for, and what comes back.

use std::path::PathBuf;

use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;

use crate::diagnose::journey::{Story, TraceError};
use crate::model::ids::DeadLetterId;
use crate::model::message::Payload;
use crate::model::operation::Operation;
use crate::model::scan::Scan;
use crate::observe::Views;
use crate::operate::plan::{Access, Applied, Confirmation, OperateError, Plan, Request, Target};
use crate::pipeline::Report;

use super::world::Fresh;

/// Everything that can happen.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted (bracketed paste).
    Paste(String),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resize(u16, u16),
    /// Feeds have new readings.
    Fresh(Vec<Fresh>),
    /// The workers of this process reported.
    Workers(Vec<Report>),
    /// An effect has ended.
    Outcome(Outcome),
    /// Time passed.
    Tick,
    /// Somebody wants us to stop.
    Stop,
    /// We are back after having been stopped.
    Resumed,
}

/// Names a request so that its answer finds its dialog.
pub type Job = u64;

/// What `update` asks for. Performed elsewhere; nothing here waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the feeds what is looked at.
    Watch(Box<Views>),
    /// Make a plan.
    Plan(Job, Request),
    /// Apply a confirmed plan. Runs to its end even when we leave.
    Apply(Job, Box<Plan>, Confirmation),
    /// Find what an event id means.
    Resolve(Job, String),
    /// Tell the story of an id.
    Trace(Job, String),
    /// Unlock a production context.
    Unlock {
        /// The context's name as typed.
        context_name: String,
        /// Why.
        reason: String,
    },
    /// Lock it again.
    Lock,
    /// Set owner or note of a dead letter.
    Annotate {
        /// Its service.
        service: String,
        /// Which.
        id: DeadLetterId,
        /// New owner.
        owner: Option<String>,
        /// New note.
        note: Option<String>,
    },
    /// Run a rule; what runs already goes on.
    Scan(String),
    /// Stop the rule that runs.
    StopScan,
    /// Run a drill.
    Drill(u8),
    /// Check the audit chains.
    VerifyAudit,
    /// Read a payload for an editor.
    ReadPayload(Target),
    /// Write a file.
    Export {
        /// Its name, without folder.
        name: String,
        /// Its content.
        body: String,
    },
    /// Look for proof soon: something was applied.
    Prove,
    /// Something with the terminal itself.
    Terminal(TerminalEffect),
}

/// What only the owner of the terminal can do.
#[derive(Clone, Debug, PartialEq)]
pub enum TerminalEffect {
    /// Put text on the clipboard by OSC 52.
    Copy(String),
    /// Draw everything anew.
    Redraw,
    /// Stop the process; the shell gets the terminal.
    Suspend,
    /// Run an editor on some bytes.
    Edit(Target, Payload),
}

/// What came of an effect.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A plan was made, or why not.
    Planned(Job, Result<Box<Plan>, OperateError>),
    /// A plan was applied, or why not.
    Applied(Job, Result<Applied, OperateError>),
    /// An event id was looked up.
    Resolved(Job, Result<Target, OperateError>),
    /// A story was told, or why not.
    Traced(Job, Result<Box<Story>, TraceError>),
    /// Operations moved on.
    Proven(Vec<Operation>),
    /// Proof could not be looked for.
    ProofProblem(String),
    /// A context was unlocked, or why not.
    Unlocked(Result<Access, OperateError>),
    /// Owner or note was set, or why not.
    Annotated(Result<(), OperateError>),
    /// Audit chains: service, and entries or fault.
    Verified(Vec<(String, Result<i64, String>)>),
    /// A payload for an editor.
    PayloadRead(Target, Result<Payload, OperateError>),
    /// The editor is done: new bytes, or `None` when nothing changed, or why it did not work.
    Edited(Target, Result<Option<Vec<u8>>, String>),
    /// A file was written, or why not.
    Exported(Result<PathBuf, String>),
    /// Text was sent to the terminal's clipboard.
    Copied(String),
    /// How far a scan is.
    Scanning(Box<Scan>),
    /// A scan has ended, or could not be run.
    Scanned(Result<Box<crate::reconcile::Outcome>, String>),
    /// A drill has ended with its report, or could not be run.
    Drilled(u8, Result<Value, String>),
}
