//! What lies over the pane: a plan to confirm, a form, the command bar, the filter line, pages, a journey.

pub mod form;
pub mod journey;
pub mod line;
pub mod page;
pub mod plan;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::form::Form;
use self::journey::Journey;
use self::line::LineEdit;
use self::page::Page;
use self::plan::PlanDialog;
use super::keymap::Scope;
use super::world::World;

/// The one thing that has the keys.
#[derive(Debug)]
pub enum Overlay {
    /// A plan.
    Plan(Box<PlanDialog>),
    /// A few text fields.
    Form(Form),
    /// The command bar or the filter line.
    Line(LineEdit),
    /// Something to read.
    Page(Page),
    /// The story of an event.
    Journey(Box<Journey>),
}

impl Overlay {
    /// Where keys mean something now.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Plan(dialog) if dialog.is_in_field() => Scope::Field,
            Self::Plan(_) => Scope::Plan,
            Self::Form(_) => Scope::Field,
            Self::Line(_) => Scope::Line,
            Self::Page(_) => Scope::Page,
            Self::Journey(_) => Scope::Journey,
        }
    }

    /// Learns the size of the screen.
    pub fn settle(&mut self, screen: Rect, world: &World) {
        match self {
            Self::Plan(dialog) => dialog.settle(screen, world),
            Self::Page(page) => page.settle(screen),
            Self::Journey(journey) => journey.settle(screen),
            Self::Form(_) | Self::Line(_) => {}
        }
    }

    /// Draws itself.
    pub fn draw(&self, screen: Rect, buf: &mut Buffer, world: &World) {
        match self {
            Self::Plan(dialog) => dialog.draw(screen, buf, world),
            Self::Form(form) => form.draw(screen, buf, world),
            Self::Line(line) => line.draw(screen, buf, world),
            Self::Page(page) => page.draw(screen, buf, world),
            Self::Journey(journey) => journey.draw(screen, buf, world),
        }
    }
}
