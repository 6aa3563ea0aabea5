//! Every key of the console in one table: it drives dispatch, the bottom line, the help and
//! `docs/keys.md`. Lowercase looks, uppercase acts.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pane::PaneId;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave, when what must finish has finished.
    Quit,
    /// Leave; again: at once.
    Interrupt,
    /// Stop the process and give the shell back.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Show the keys.
    Help,
    /// Open the command bar.
    Command,
    /// Edit the filter.
    Filter,
    /// Go to a pane.
    Pane(PaneId),
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// To the tab or state at the left.
    Left,
    /// To the tab or state at the right.
    Right,
    /// Into the row.
    Enter,
    /// Back out.
    Back,
    /// The next part of the pane.
    NextFocus,
    /// The part before.
    PreviousFocus,
    /// Mark the row.
    Mark,
    /// Copy the row's id.
    Copy,
    /// The story of what is under the cursor.
    Journey,
    /// Write what is shown to a file.
    Export,
    /// Stop or go on reading.
    Pause,
    /// Read now.
    Refresh,
    /// Unlock or lock a production context.
    Unlock,
    /// The next service's rows.
    NextService,
    /// The next page of rows.
    NextPage,
    /// The first page of rows.
    FirstPage,
    /// Another form of the payload.
    ViewAs,
    /// Replay.
    Replay,
    /// Repair.
    Repair,
    /// Release a lease.
    Release,
    /// Discard.
    Discard,
    /// Send a saga's step again.
    SagaRetry,
    /// Ask what became of a saga's step.
    SagaQuery,
    /// Turn a saga round.
    SagaCompensate,
    /// Say that a person saw to a saga.
    SagaHandled,
    /// Say who looks after a saga.
    SagaAssign,
    /// The event that blocks a saga, in the outbox.
    Origin,
    /// Set the owner.
    Assign,
    /// Set the note.
    Note,
    /// Check the audit chain.
    Verify,
    /// Run a rule.
    Scan,
    /// Run a drill.
    RunDrill,
    /// Do what the dialog says.
    Confirm,
    /// Through the exchange, or straight to the queue.
    ThroughExchange,
    /// Close it as already processed instead.
    Resolve,
    /// A person made sure that it is not done, or is.
    NotDone,
    /// Ignore a refusal, in words.
    Override,
    /// Complete what is typed.
    Complete,
    /// Take what is typed.
    Submit,
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// In every pane.
    Everywhere,
    /// Pane 1.
    Overview,
    /// Pane 2.
    Outbox,
    /// Pane 3.
    Leases,
    /// Pane 4.
    Queues,
    /// Pane 5.
    DeadLetters,
    /// Pane 6.
    Sagas,
    /// Pane 7.
    Scans,
    /// Pane 8.
    Operations,
    /// Pane 9.
    Audit,
    /// Pane 0.
    Drills,
    /// A plan waiting for its confirmation, outside of its text fields.
    Plan,
    /// A text field of a dialog.
    Field,
    /// The command bar and the filter line.
    Line,
    /// A journey.
    Journey,
    /// The help and other texts over the pane.
    Page,
}

impl Scope {
    /// Every scope in the order of help and docs, with its heading.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Everywhere, "Everywhere"),
        (Self::Overview, "1 Overview"),
        (Self::Outbox, "2 Outbox"),
        (Self::Leases, "3 Leases"),
        (Self::Queues, "4 Queues"),
        (Self::DeadLetters, "5 Dead letters"),
        (Self::Sagas, "6 Sagas"),
        (Self::Scans, "7 Scans"),
        (Self::Operations, "8 Operations"),
        (Self::Audit, "9 Audit"),
        (Self::Drills, "0 Drills (sandboxes)"),
        (Self::Plan, "The dialog of an action"),
        (Self::Field, "A text field in a dialog"),
        (Self::Line, "The filter line and the command bar"),
        (Self::Journey, "A journey"),
        (Self::Page, "Help and other pages"),
    ];
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Which.
    pub code: KeyCode,
    /// With Ctrl.
    pub is_ctrl: bool,
}

const fn ch(c: char) -> Key {
    Key {
        code: KeyCode::Char(c),
        is_ctrl: false,
    }
}

const fn ctrl(c: char) -> Key {
    Key {
        code: KeyCode::Char(c),
        is_ctrl: true,
    }
}

const fn code(code: KeyCode) -> Key {
    Key {
        code,
        is_ctrl: false,
    }
}

impl Key {
    /// The key of an event. Shift is in the character already.
    pub fn of(event: KeyEvent) -> Self {
        Self {
            code: event.code,
            is_ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_ctrl {
            f.write_str("ctrl-")?;
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("space"),
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::Enter => f.write_str("Enter"),
            KeyCode::Esc => f.write_str("Esc"),
            KeyCode::Tab => f.write_str("Tab"),
            KeyCode::BackTab => f.write_str("shift-Tab"),
            KeyCode::Up => f.write_str("↑"),
            KeyCode::Down => f.write_str("↓"),
            KeyCode::Left => f.write_str("←"),
            KeyCode::Right => f.write_str("→"),
            KeyCode::PageUp => f.write_str("PgUp"),
            KeyCode::PageDown => f.write_str("PgDn"),
            KeyCode::Home => f.write_str("Home"),
            KeyCode::End => f.write_str("End"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Keys that do it; the first is the one that is shown.
    pub keys: &'static [Key],
    /// Where.
    pub scope: Scope,
    /// What.
    pub action: Action,
    /// One or two words for the bottom line.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Rank on the bottom line: 0 = not there, 1 = first.
    pub bar: u8,
    /// True for keys that must not be set off by pasted or streaming text (T-10).
    pub is_guarded: bool,
}

impl Binding {
    /// The keys as help shows them.
    pub fn keys_text(&self) -> String {
        self.keys
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

const fn key(
    keys: &'static [Key],
    scope: Scope,
    action: Action,
    name: &'static str,
    bar: u8,
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        scope,
        action,
        name,
        help,
        bar,
        is_guarded: false,
    }
}

const fn guarded(binding: Binding) -> Binding {
    Binding {
        is_guarded: true,
        ..binding
    }
}

use Action as A;
use Scope as S;

/// The whole table, in the order of help and docs.
#[rustfmt::skip]
pub const BINDINGS: &[Binding] = &[
    key(&[ch('1')], S::Everywhere, A::Pane(PaneId::Overview), "overview", 0, "Go to Overview: what is wrong, the flow, its history."),
    key(&[ch('2')], S::Everywhere, A::Pane(PaneId::Outbox), "outbox", 0, "Go to Outbox: rows by state, oldest due first."),
    key(&[ch('3')], S::Everywhere, A::Pane(PaneId::Leases), "leases", 0, "Go to Leases: claimed rows by claim token."),
    key(&[ch('4')], S::Everywhere, A::Pane(PaneId::Queues), "queues", 0, "Go to Queues: depth, consumers, rates, lag."),
    key(&[ch('5')], S::Everywhere, A::Pane(PaneId::DeadLetters), "dead letters", 0, "Go to Dead letters: by cause, then one by one."),
    key(&[ch('6')], S::Everywhere, A::Pane(PaneId::Sagas), "sagas", 0, "Go to Sagas: stalest first."),
    key(&[ch('7')], S::Everywhere, A::Pane(PaneId::Scans), "scans", 0, "Go to Scans: rules, their last runs, and what they found."),
    key(&[ch('8')], S::Everywhere, A::Pane(PaneId::Operations), "operations", 0, "Go to Operations: what was done, and its proof."),
    key(&[ch('9')], S::Everywhere, A::Pane(PaneId::Audit), "audit", 0, "Go to Audit: who did what, when, why."),
    key(&[ch('0')], S::Everywhere, A::Pane(PaneId::Drills), "drills", 0, "Go to Drills, in a sandbox: what happens when something breaks."),
    key(&[ch('j'), code(KeyCode::Down)], S::Everywhere, A::Down, "down", 0, "One row down."),
    key(&[ch('k'), code(KeyCode::Up)], S::Everywhere, A::Up, "up", 0, "One row up."),
    key(&[code(KeyCode::PageDown), ctrl('f'), ctrl('d')], S::Everywhere, A::PageDown, "page down", 0, "One screen down."),
    key(&[code(KeyCode::PageUp), ctrl('b'), ctrl('u')], S::Everywhere, A::PageUp, "page up", 0, "One screen up."),
    key(&[ch('g'), code(KeyCode::Home)], S::Everywhere, A::First, "first", 0, "To the first row."),
    key(&[ch('G'), code(KeyCode::End)], S::Everywhere, A::Last, "last", 0, "To the last row."),
    key(&[ch('h'), code(KeyCode::Left)], S::Everywhere, A::Left, "left", 0, "To the tab or state at the left."),
    key(&[ch('l'), code(KeyCode::Right)], S::Everywhere, A::Right, "right", 0, "To the tab or state at the right."),
    key(&[code(KeyCode::Enter)], S::Everywhere, A::Enter, "open", 30, "Into the row under the cursor."),
    key(&[code(KeyCode::Esc)], S::Everywhere, A::Back, "back", 25, "Back out; in a list: clear marks, then the filter."),
    key(&[code(KeyCode::Tab)], S::Everywhere, A::NextFocus, "list⇄detail", 0, "Between the lists and the detail of a pane."),
    key(&[code(KeyCode::BackTab)], S::Everywhere, A::PreviousFocus, "other way", 0, "The same, the other way round."),
    key(&[ch(' ')], S::Everywhere, A::Mark, "mark", 60, "Mark the row and go on; marked rows are what is exported."),
    guarded(key(&[ch('y')], S::Everywhere, A::Copy, "copy id", 55, "Copy the id under the cursor to the clipboard, also over SSH (OSC 52).")),
    key(&[ch('t')], S::Everywhere, A::Journey, "journey", 50, "The journey of what is under the cursor: everything known of it over all services, in time order."),
    guarded(key(&[ch('x')], S::Everywhere, A::Export, "export", 0, "Write the rows that are shown (or marked) to a JSON file.")),
    guarded(key(&[ch('p')], S::Everywhere, A::Pause, "pause", 70, "Stop reading, or go on: the screen stands still.")),
    key(&[ch('r')], S::Everywhere, A::Refresh, "refresh", 0, "Read now."),
    key(&[ch('/')], S::Everywhere, A::Filter, "filter", 40, "Filter the rows, e.g. type:order.created age>10m error~timeout; in a detail: search."),
    key(&[ch(':')], S::Everywhere, A::Command, "command", 45, "Command bar: panes, verbs, filters, with completion."),
    key(&[ch('?')], S::Everywhere, A::Help, "help", 90, "The keys of this pane."),
    guarded(key(&[ch('U')], S::Everywhere, A::Unlock, "unlock", 80, "Unlock a locked production context for some minutes, or lock it again.")),
    key(&[ctrl('l')], S::Everywhere, A::Redraw, "redraw", 0, "Draw the whole screen anew."),
    key(&[ctrl('z')], S::Everywhere, A::Suspend, "suspend", 0, "Back to the shell; fg returns."),
    guarded(key(&[ch('q')], S::Everywhere, A::Quit, "quit", 91, "Leave; actions that are being applied finish first.")),
    key(&[ctrl('c')], S::Everywhere, A::Interrupt, "leave", 0, "Leave; pressed twice: at once."),

    key(&[ch('s')], S::Outbox, A::NextService, "service", 20, "Rows of all services, or of one after the other."),
    key(&[ch('>')], S::Outbox, A::NextPage, "next page", 0, "The next page of one service's rows."),
    key(&[ch('<')], S::Outbox, A::FirstPage, "first page", 0, "Back to the first page."),
    guarded(key(&[ch('R')], S::Outbox, A::Replay, "replay", 1, "Replay the failed row under the cursor: back to pending, the dispatcher sends it.")),

    guarded(key(&[ch('L')], S::Leases, A::Release, "release", 1, "Release the expired lease under the cursor: its rows go back to pending.")),

    key(&[ch('>')], S::Queues, A::NextPage, "next page", 0, "The next page of queues."),
    key(&[ch('<')], S::Queues, A::FirstPage, "first page", 0, "Back to the first page."),

    guarded(key(&[ch('R')], S::DeadLetters, A::Replay, "replay", 1, "Replay the dead letter under the cursor: same event id, same bytes, to the consumer that failed.")),
    guarded(key(&[ch('E')], S::DeadLetters, A::Repair, "repair", 2, "Repair it: edit the payload in $EDITOR and issue a new, linked event.")),
    guarded(key(&[ch('D')], S::DeadLetters, A::Discard, "discard", 3, "Discard it: given up, with a reason.")),
    guarded(key(&[ch('a')], S::DeadLetters, A::Assign, "assign", 4, "Say who takes care of it.")),
    guarded(key(&[ch('n')], S::DeadLetters, A::Note, "note", 5, "Write a note on it.")),
    key(&[ch('s')], S::DeadLetters, A::NextService, "status", 20, "Open ones, or those of another status."),
    key(&[ch('>')], S::DeadLetters, A::NextPage, "next page", 0, "The next page of one service's dead letters."),
    key(&[ch('<')], S::DeadLetters, A::FirstPage, "first page", 0, "Back to the first page."),
    key(&[ch('v')], S::DeadLetters, A::ViewAs, "view as", 21, "The payload as laid out JSON, as text, or in hex."),

    guarded(key(&[ch('T')], S::Sagas, A::SagaRetry, "retry", 1, "Try again: the command of the step that holds the saga up is sent again, under the same idempotency key.")),
    guarded(key(&[ch('Q')], S::Sagas, A::SagaQuery, "query", 2, "Query what became of the step: its service is asked again.")),
    guarded(key(&[ch('C')], S::Sagas, A::SagaCompensate, "compensate", 3, "Compensate: the saga turns round, what was done is undone.")),
    guarded(key(&[ch('H')], S::Sagas, A::SagaHandled, "handled", 4, "Mark the step as handled by hand, with evidence.")),
    guarded(key(&[ch('A')], S::Sagas, A::SagaAssign, "assign", 5, "Say who looks after the saga.")),
    key(&[ch('o')], S::Sagas, A::Origin, "outbox", 22, "The message that blocks the saga, in Outbox; l or → shows it among the dead letters."),

    guarded(key(&[ch('S')], S::Scans, A::Scan, "scan", 1, "Run the rule under the cursor, or the rule of the finding; Esc stops it. It reads; what it finds is kept.")),
    guarded(key(&[ch('R')], S::Scans, A::Replay, "what fixes it", 2, "Open what a finding suggests: the plan of a replay, or the saga. Nothing is done by itself.")),

    guarded(key(&[ch('R')], S::Drills, A::RunDrill, "run", 1, "Run the drill under the cursor, as a program of its own; in the demo on an embedded pipeline beside it.")),

    guarded(key(&[ch('v')], S::Audit, A::Verify, "verify chain", 1, "Check the hash chain of every journal.")),

    guarded(key(&[ch('y')], S::Plan, A::Confirm, "confirm", 1, "Do it. Only y does, never Enter.")),
    key(&[code(KeyCode::Tab), code(KeyCode::Down)], S::Plan, A::NextFocus, "next field", 3, "To the next field."),
    key(&[code(KeyCode::BackTab), code(KeyCode::Up)], S::Plan, A::PreviousFocus, "field before", 0, "To the field before."),
    key(&[code(KeyCode::Esc), code(KeyCode::Enter)], S::Plan, A::Back, "cancel", 2, "Close the dialog; nothing is done."),
    key(&[code(KeyCode::PageDown), ch('j')], S::Plan, A::PageDown, "more", 0, "Scroll a plan that is longer than the screen."),
    key(&[code(KeyCode::PageUp), ch('k')], S::Plan, A::PageUp, "less", 0, "Scroll back."),
    guarded(key(&[ch('e')], S::Plan, A::ThroughExchange, "through exchange", 5, "Replay: through the original exchange instead of straight to the failed queue, or back. Plans again.")),
    guarded(key(&[ch('v')], S::Plan, A::Resolve, "resolve instead", 6, "Replay: close the dead letter as already processed instead. Plans again.")),
    guarded(key(&[ch('o')], S::Plan, A::Override, "override", 7, "A refusal that may be overridden: type the name of its check. Plans again.")),
    guarded(key(&[ch('n')], S::Plan, A::NotDone, "not done", 8, "Handled saga: you made sure that the step is not done, or that it is. Plans again.")),
    key(&[ctrl('c')], S::Plan, A::Interrupt, "leave", 0, "Leave the console; nothing is done."),
    key(&[ctrl('l')], S::Plan, A::Redraw, "redraw", 0, "Draw the whole screen anew."),
    key(&[ctrl('z')], S::Plan, A::Suspend, "suspend", 0, "Back to the shell; fg returns. Nothing is confirmed meanwhile."),

    key(&[code(KeyCode::Enter)], S::Field, A::NextFocus, "next", 1, "To the next field; after the last one to Cancel. Enter never confirms."),
    key(&[code(KeyCode::Tab), code(KeyCode::Down)], S::Field, A::NextFocus, "next", 0, "To the next field."),
    key(&[code(KeyCode::BackTab), code(KeyCode::Up)], S::Field, A::PreviousFocus, "before", 0, "To the field before."),
    key(&[code(KeyCode::Esc)], S::Field, A::Back, "out of the field", 2, "Out of the field, to Cancel."),
    key(&[ctrl('c')], S::Field, A::Interrupt, "leave", 0, "Leave the console; nothing is done."),
    key(&[ctrl('l')], S::Field, A::Redraw, "redraw", 0, "Draw the whole screen anew."),

    key(&[code(KeyCode::Enter)], S::Line, A::Submit, "take", 1, "Take what is typed."),
    key(&[code(KeyCode::Tab)], S::Line, A::Complete, "complete", 2, "Take the completion that is offered."),
    key(&[code(KeyCode::Down)], S::Line, A::Down, "next", 3, "The next completion."),
    key(&[code(KeyCode::Up)], S::Line, A::Up, "before", 0, "The completion before."),
    key(&[code(KeyCode::Esc), ctrl('c')], S::Line, A::Back, "never mind", 4, "Close the line; nothing changes."),
    key(&[ctrl('l')], S::Line, A::Redraw, "redraw", 0, "Draw the whole screen anew."),

    key(&[code(KeyCode::Enter)], S::Journey, A::Enter, "evidence", 1, "To the pane that shows what this line is about."),
    key(&[code(KeyCode::Esc), ch('q'), ch('t')], S::Journey, A::Back, "back", 2, "Back to the pane."),
    key(&[ch('j'), code(KeyCode::Down)], S::Journey, A::Down, "down", 3, "One line down."),
    key(&[ch('k'), code(KeyCode::Up)], S::Journey, A::Up, "up", 0, "One line up."),
    key(&[code(KeyCode::PageDown), ch(' '), ctrl('f'), ctrl('d')], S::Journey, A::PageDown, "page down", 0, "One screen down."),
    key(&[code(KeyCode::PageUp), ctrl('b'), ctrl('u')], S::Journey, A::PageUp, "page up", 0, "One screen up."),
    key(&[ch('g'), code(KeyCode::Home)], S::Journey, A::First, "first", 0, "To the first moment."),
    key(&[ch('G'), code(KeyCode::End)], S::Journey, A::Last, "last", 0, "To the last line: gaps and conflicts stand at the end."),
    key(&[ch('r')], S::Journey, A::Refresh, "read again", 4, "Read it again: a journey does not change by itself."),
    guarded(key(&[ch('y')], S::Journey, A::Copy, "copy id", 5, "Copy the id of this line to the clipboard.")),
    key(&[ctrl('c')], S::Journey, A::Interrupt, "leave", 0, "Leave the console."),
    key(&[ctrl('l')], S::Journey, A::Redraw, "redraw", 0, "Draw the whole screen anew."),
    key(&[ctrl('z')], S::Journey, A::Suspend, "suspend", 0, "Back to the shell; fg returns."),

    key(&[code(KeyCode::Esc), code(KeyCode::Enter), ch('q'), ch('?')], S::Page, A::Back, "close", 1, "Close the page."),
    key(&[ch('j'), code(KeyCode::Down)], S::Page, A::Down, "down", 2, "One row down."),
    key(&[ch('k'), code(KeyCode::Up)], S::Page, A::Up, "up", 0, "One row up."),
    key(&[code(KeyCode::PageDown), ch(' '), ctrl('f'), ctrl('d')], S::Page, A::PageDown, "page down", 3, "One screen down."),
    key(&[code(KeyCode::PageUp), ctrl('b'), ctrl('u')], S::Page, A::PageUp, "page up", 0, "One screen up."),
    key(&[ch('g'), code(KeyCode::Home)], S::Page, A::First, "first", 0, "To the beginning."),
    key(&[ch('G'), code(KeyCode::End)], S::Page, A::Last, "last", 0, "To the end."),
    key(&[ctrl('c')], S::Page, A::Interrupt, "leave", 0, "Leave the console."),
    key(&[ctrl('l')], S::Page, A::Redraw, "redraw", 0, "Draw the whole screen anew."),
    key(&[ctrl('z')], S::Page, A::Suspend, "suspend", 0, "Back to the shell; fg returns."),
];

/// What a key means where these scopes are in force; the first scope wins.
pub fn find(scopes: &[Scope], event: KeyEvent) -> Option<&'static Binding> {
    let pressed = Key::of(event);
    scopes.iter().find_map(|scope| {
        BINDINGS
            .iter()
            .find(|binding| binding.scope == *scope && binding.keys.contains(&pressed))
    })
}

/// The bindings of these scopes.
pub fn of(scopes: &[Scope]) -> impl Iterator<Item = &'static Binding> {
    BINDINGS
        .iter()
        .filter(move |binding| scopes.contains(&binding.scope))
}

#[cfg(test)]
mod tests;
