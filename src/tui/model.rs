//! Everything that is on screen. `update` changes it, `view` only reads it.

use std::collections::BTreeSet;

use ratatui::layout::Rect;

use crate::base::clock::Timestamp;
use crate::model::dead_letter::DeadLetterStatus;
use crate::model::ids::OperationId;
use crate::model::outbox::OutboxState;
use crate::observe::{DeadLettersView, OutboxView, Views};
use crate::operate::plan::Target;

use super::dialog::Overlay;
use super::event::Job;
use super::hint::Script;
use super::keymap::Scope;
use super::layout;
use super::pane::{Ask, PANES, Pane, PaneId};
use super::widget::toast::Toast;
use super::world::World;

/// How the console ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The operator left.
    Quit,
    /// A signal asked us to stop.
    Stopped,
    /// Another context is wanted.
    Context(String),
}

/// What is on screen.
pub struct Model {
    /// What every pane may read.
    pub world: World,
    panes: Vec<Box<dyn Pane>>,
    /// The pane on screen.
    pub active: PaneId,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// What lies over the pane.
    pub overlay: Option<Overlay>,
    /// What just happened.
    pub toast: Option<Toast>,
    /// What the feeds were told last.
    pub views: Views,
    /// The guided line.
    pub hints: Option<Script>,
    /// Contexts that can be opened.
    pub contexts: Vec<String>,
    /// Actions that must finish before we leave.
    pub applying: BTreeSet<Job>,
    /// Operations whose proof is awaited.
    pub following: BTreeSet<OperationId>,
    /// Since when we are leaving.
    pub quit_since: Option<Timestamp>,
    /// Set: the loop ends.
    pub exit: Option<Exit>,
    /// What to do when the context has been unlocked.
    pub pending: Option<Ask>,
    /// An edited payload that was not taken yet.
    pub draft: Option<(Target, Vec<u8>)>,
    /// When the last key came, for telling a person from a stream.
    pub last_key_at: Option<Timestamp>,
    /// True when the key being handled came too fast for a person.
    pub is_burst: bool,
    next_job: Job,
}

impl Model {
    /// A screen on which nothing was read yet.
    pub fn new(world: World, active: PaneId, size: (u16, u16)) -> Self {
        let page_rows = world.context.thresholds.page_rows;
        let mut model = Self {
            views: Views {
                generation: 1,
                is_paused: false,
                active: vec![active.spec().feed],
                outbox: OutboxView {
                    service: None,
                    state: OutboxState::Pending,
                    event_type: None,
                    event: None,
                    payload: None,
                    after: None,
                    limit: page_rows,
                },
                dead_letters: DeadLettersView {
                    service: None,
                    status: DeadLetterStatus::Open,
                    consumer: None,
                    event_type: None,
                    error_class: None,
                    payload: None,
                    after: None,
                    limit: page_rows,
                },
                dead_letter: None,
                queues_page: 1,
            },
            world,
            panes: PANES.iter().map(|spec| (spec.make)()).collect(),
            active,
            size,
            overlay: None,
            toast: None,
            hints: None,
            contexts: Vec::new(),
            applying: BTreeSet::new(),
            following: BTreeSet::new(),
            quit_since: None,
            exit: None,
            pending: None,
            draft: None,
            last_key_at: None,
            is_burst: false,
            next_job: 0,
        };
        model.sync_pane(active);
        model.settle();
        model
    }

    /// The pane on screen.
    pub fn pane(&self) -> &dyn Pane {
        self.pane_of(self.active)
    }

    fn index_of(id: PaneId) -> usize {
        PANES.iter().position(|spec| spec.id == id).unwrap_or(0)
    }

    /// A pane.
    pub fn pane_of(&self, id: PaneId) -> &dyn Pane {
        self.panes[Self::index_of(id)].as_ref()
    }

    /// The pane on screen and what it may read.
    pub fn pane_and_world(&mut self) -> (&mut dyn Pane, &World) {
        self.pane_and_world_of(self.active)
    }

    /// A pane and what it may read.
    pub fn pane_and_world_of(&mut self, id: PaneId) -> (&mut dyn Pane, &World) {
        (self.panes[Self::index_of(id)].as_mut(), &self.world)
    }

    /// Lets a pane take over what was read.
    pub fn sync_pane(&mut self, id: PaneId) {
        let (pane, world) = self.pane_and_world_of(id);
        pane.sync(world);
    }

    /// The whole screen.
    pub const fn screen(&self) -> Rect {
        Rect::new(0, 0, self.size.0, self.size.1)
    }

    /// Tells everything on screen how large it is; drawing then changes nothing.
    pub fn settle(&mut self) {
        let screen = self.screen();
        let areas = layout::Areas::cut(screen, self.hints.is_some());
        let (pane, world) = self.pane_and_world();
        pane.settle(areas.body, world);
        if let Some(overlay) = &mut self.overlay {
            overlay.settle(screen, &self.world);
        }
    }

    /// Where keys mean something now, the nearest first.
    pub fn scopes(&self) -> Vec<Scope> {
        match &self.overlay {
            Some(overlay) => vec![overlay.scope()],
            None => vec![self.active.spec().scope, Scope::Everywhere],
        }
    }

    /// A number for a request.
    pub fn new_job(&mut self) -> Job {
        self.next_job += 1;
        self.next_job
    }

    /// When something on screen changes by itself, or nothing does.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let confirm = match &self.overlay {
            Some(Overlay::Plan(dialog)) => dialog.due_at(),
            _ => None,
        };
        let toast = self.toast.as_ref().map(|toast| toast.until);
        // Ages and the clock go by the second; a paused screen stands still.
        let second =
            self.world.paused_at.is_none().then(|| {
                Timestamp::from_micros((self.world.now.micros() / 1_000_000 + 1) * 1_000_000)
            });
        let leaving = self
            .quit_since
            .map(|since| since.plus(super::update::QUIT_PATIENCE));
        [confirm, toast, second, leaving]
            .into_iter()
            .flatten()
            .min()
    }
}
