//! The loop: signals, outcomes, feeds, keys, time; then a frame when something changed and nothing
//! waits.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event as Input, EventStream};
use futures::{FutureExt as _, StreamExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::assembly::Services;
use crate::base::clock::Clock;
use crate::base::tasks::Tasks;
use crate::observe::Feeds;
use crate::observe::snapshot::Reading;
use crate::operate::Operator;
use crate::pipeline::Report;

use super::effect::{self, OUTCOMES_MAX, Performer};
use super::event::{Effect, Event, Outcome, TerminalEffect};
use super::model::{Exit, Model};
use super::pane::PaneId;
use super::screen::Screen;
use super::terminal::{self, Guard};
use super::theme::{Depth, Theme, is_utf8_locale};
use super::update::update;
use super::view;
use super::world::{Fresh, World};
use super::{Options, TuiError};

/// At most 30 frames a second for what comes by itself.
const FRAME: Duration = Duration::from_millis(33);
/// A key is answered sooner: it must be on screen within 16 ms whatever was drawn just before.
const FRAME_AFTER_KEY: Duration = Duration::from_millis(5);
/// While nobody touches it, what comes by itself is gathered for so long, without waking up for each: the clock on the
/// screen and the answers of one refresh, which begins with its second, share a wake-up and a frame, as do those about
/// causes, which take longer.
const GATHER: Duration = Duration::from_millis(150);
/// Somebody is there for so long after a key or the outcome of one.
const ATTENDED: Duration = Duration::from_secs(3);
/// Events handled between two frames at most, so that a flood of them cannot starve the screen.
const EVENTS_MAX: u32 = 256;
/// How long reads are waited for at the end; they lose nothing.
const READS_PATIENCE: Duration = Duration::from_millis(300);
/// How long writes are waited for at the end, after the loop has waited already.
const WRITES_PATIENCE: Duration = Duration::from_millis(700);

/// Runs the console until the operator leaves. Draws before anything is reached.
///
/// # Errors
/// [`TuiError`]; the terminal is given back in every case.
pub async fn run(services: Services, options: Options) -> Result<Exit, TuiError> {
    terminal::check_tty()?;
    let mut guard = Guard::take(options.mouse)?;
    let result = Box::pin(Console::start(&services, options)?.run(&mut guard)).await;
    drop(guard);
    result
}

/// Signals that concern a console.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    stop: Signal,
    resume: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            resume: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Wake {
        tokio::select! {
            _ = self.terminate.recv() => Wake::Terminate,
            _ = self.hangup.recv() => Wake::Terminate,
            _ = self.interrupt.recv() => Wake::Terminate,
            _ = self.stop.recv() => Wake::Suspend,
            _ = self.resume.recv() => Wake::Resume,
        }
    }
}

/// Why the loop woke up.
enum Wake {
    Terminate,
    Suspend,
    Resume,
    Panicked,
    Lost(io::Error),
    Event(Event),
    /// A frame may be drawn now, or time passed.
    Time,
}

/// The console's parts.
struct Console {
    model: Model,
    clock: Clock,
    operator: Arc<Operator>,
    performer: Performer,
    outcomes: mpsc::Receiver<Outcome>,
    feeds: Readers,
    workers: Option<watch::Receiver<Vec<Report>>>,
    /// `None` while somebody else reads the keys.
    input: Option<EventStream>,
    signals: Signals,
    screen: Screen<Stdout>,
    reads: Tasks,
    writes: Tasks,
    is_dirty: bool,
    /// True when a key waits for its frame.
    is_urgent: bool,
    drawn_at: Option<Instant>,
    /// Since when something waits for a frame.
    dirty_since: Instant,
    /// When somebody last did something, or heard what became of it.
    touched_at: Instant,
}

/// The receiving ends of the feeds, once they run.
struct Readers(Option<Feeds>);

impl Readers {
    /// The next reading of any feed; never, while there are none.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not taken is still there for the next call.
    async fn next(&mut self) -> Fresh {
        async fn changed<T: Clone>(receiver: &mut watch::Receiver<Reading<T>>) -> Reading<T> {
            if receiver.changed().await.is_err() {
                // A feed that has ended never changes again.
                return std::future::pending().await;
            }
            receiver.borrow_and_update().clone()
        }
        let Some(feeds) = &mut self.0 else {
            return std::future::pending().await;
        };
        tokio::select! {
            reading = changed(&mut feeds.health) => Fresh::Health(reading),
            reading = changed(&mut feeds.flow) => Fresh::Flow(reading),
            reading = changed(&mut feeds.causes) => Fresh::Causes(reading),
            reading = changed(&mut feeds.outbox) => Fresh::Outbox(reading),
            reading = changed(&mut feeds.leases) => Fresh::Leases(reading),
            reading = changed(&mut feeds.queues) => Fresh::Queues(reading),
            reading = changed(&mut feeds.dead_letters) => Fresh::DeadLetters(reading),
            reading = changed(&mut feeds.dead_letter) => Fresh::DeadLetter(reading),
            reading = changed(&mut feeds.sagas) => Fresh::Sagas(reading),
            reading = changed(&mut feeds.scans) => Fresh::Scans(reading),
            reading = changed(&mut feeds.operations) => Fresh::Operations(reading),
            reading = changed(&mut feeds.audit) => Fresh::Audit(reading),
        }
    }

    /// The readings that are there.
    fn all(&mut self) -> Vec<Fresh> {
        std::iter::from_fn(|| self.next().now_or_never()).collect()
    }
}

async fn typed(input: &mut Option<EventStream>) -> Option<io::Result<Input>> {
    match input {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn reported(workers: &mut Option<watch::Receiver<Vec<Report>>>) -> Vec<Report> {
    if let Some(receiver) = workers
        && receiver.changed().await.is_ok()
    {
        return receiver.borrow_and_update().clone();
    }
    std::future::pending().await
}

impl Console {
    /// Draws the first frame, then starts everything that reaches somewhere.
    fn start(services: &Services, options: Options) -> Result<Self, TuiError> {
        let var = |name: &str| std::env::var(name).ok();
        let depth = if options.no_color {
            Depth::None
        } else {
            Depth::detect(var)
        };
        let theme = Theme::new(options.theme, depth, !is_utf8_locale(var));
        let clock = services.ports.clock.clone();
        let clock_now = clock.now();
        let operator = services.operator.clone();
        let world = World::new(
            services.ports.context.clone(),
            clock_now,
            operator.access(),
            theme,
        );
        let size = crossterm::terminal::size()?;
        let is_here = options.pane.is_in(world.context.environment);
        let pane = if is_here {
            options.pane
        } else {
            PaneId::default()
        };
        let mut model = Model::new(world, pane, size);
        model.hints = options.hints;
        model.contexts = options.contexts;
        model.settle();
        let (sender, outcomes) = mpsc::channel(OUTCOMES_MAX);
        let (reads, writes) = (Tasks::new(), Tasks::new());
        let mut console = Self {
            performer: Performer::new(services, sender, reads.clone(), writes.clone())
                .with_drills(options.drill)
                .with_scans(services.reconciler.clone()),
            model,
            clock,
            operator,
            outcomes,
            feeds: Readers(None),
            workers: options.workers,
            input: Some(EventStream::new()),
            signals: Signals::new()?,
            screen: Screen::new(io::stdout()),
            reads,
            writes,
            is_dirty: true,
            is_urgent: false,
            drawn_at: None,
            dirty_since: Instant::now(),
            touched_at: Instant::now(),
        };
        console.draw()?;
        let mut feeds = Feeds::start(
            services.observer.clone(),
            console.model.views.clone(),
            &console.reads,
        );
        // The console keeps the readers, the performer tells the feeds what is looked at.
        let views = std::mem::replace(
            &mut feeds.views,
            watch::channel(console.model.views.clone()).0,
        );
        console.performer.connect(views);
        console.performer.start_proving();
        console.feeds = Readers(Some(feeds));
        Ok(console)
    }

    async fn run(mut self, guard: &mut Guard) -> Result<Exit, TuiError> {
        let result = self.turns(guard).await;
        // The shell gets its terminal before anything is waited for.
        guard.leave();
        self.reads.stop(READS_PATIENCE).await;
        if !self.writes.stop(WRITES_PATIENCE).await {
            tracing::warn!("left while an action was being applied; its record tells the outcome");
        }
        result
    }

    async fn turns(&mut self, guard: &mut Guard) -> Result<Exit, TuiError> {
        loop {
            let mut handled = 0;
            loop {
                let wake = if handled < EVENTS_MAX {
                    self.next().await
                } else {
                    Wake::Time
                };
                let is_time = matches!(wake, Wake::Time);
                match wake {
                    Wake::Panicked => return Err(TuiError::Panicked),
                    Wake::Lost(error) => return Err(TuiError::Lost(error)),
                    Wake::Terminate => self.handle(Event::Stop, guard).await?,
                    Wake::Suspend => self.suspend(guard, false).await?,
                    Wake::Resume => {
                        guard.enter()?;
                        self.handle(Event::Resumed, guard).await?;
                    }
                    Wake::Event(event) => self.handle(event, guard).await?,
                    Wake::Time => self.on_time(guard).await?,
                }
                if let Some(exit) = self.model.exit.take() {
                    return Ok(exit);
                }
                handled += 1;
                if is_time {
                    break;
                }
            }
            if self.is_dirty && self.frame_due() <= Instant::now() {
                self.draw()?;
            }
        }
    }

    /// When the next frame may be drawn.
    fn frame_due(&self) -> Instant {
        let Some(drawn_at) = self.drawn_at else {
            return Instant::now();
        };
        if self.is_urgent {
            drawn_at + FRAME_AFTER_KEY
        } else if self.is_quiet() {
            (drawn_at + FRAME).max(self.dirty_since + GATHER)
        } else {
            drawn_at + FRAME
        }
    }

    /// True while nobody touches it.
    fn is_quiet(&self) -> bool {
        !self.is_urgent && self.touched_at.elapsed() >= ATTENDED
    }

    /// Something waits for a frame.
    fn mark_dirty(&mut self) {
        if !self.is_dirty {
            self.is_dirty = true;
            self.dirty_since = Instant::now();
        }
    }

    /// A frame is due, or what time brings about is.
    async fn on_time(&mut self, guard: &mut Guard) -> Result<(), TuiError> {
        if self.is_quiet() && !self.is_dirty {
            // The gathering begins; all there is to do is done at its end.
            self.mark_dirty();
            return Ok(());
        }
        let fresh = self.feeds.all();
        let event = if fresh.is_empty() {
            Event::Tick
        } else {
            Event::Fresh(fresh)
        };
        self.handle(event, guard).await
    }

    /// Waits for whatever comes first; what must not be missed is asked first.
    async fn next(&mut self) -> Wake {
        let frame = self.is_dirty.then(|| self.frame_due());
        let is_gathering = self.is_dirty && self.is_quiet();
        let wake = self.model.wake_at().filter(|_| !is_gathering).map(|at| {
            let wait = u64::try_from(at.micros_since(self.clock.now())).unwrap_or(0);
            Instant::now() + Duration::from_micros(wait)
        });
        let until = [frame, wake].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = terminal::panicked() => Wake::Panicked,
            wake = self.signals.next() => wake,
            Some(outcome) = self.outcomes.recv() => Wake::Event(Event::Outcome(outcome)),
            input = typed(&mut self.input) => match input {
                Some(Ok(input)) => translate(input),
                Some(Err(error)) => Wake::Lost(error),
                None => Wake::Lost(io::Error::from(io::ErrorKind::UnexpectedEof)),
            },
            fresh = self.feeds.next(), if !is_gathering => Wake::Event(Event::Fresh(vec![fresh])),
            reports = reported(&mut self.workers), if !is_gathering => {
                Wake::Event(Event::Workers(reports))
            }
            () = sleep_until(until) => Wake::Time,
        }
    }

    async fn handle(&mut self, event: Event, guard: &mut Guard) -> Result<(), TuiError> {
        self.model.world.now = self.clock.now();
        self.model.world.access = self.operator.access();
        let is_urgent = matches!(event, Event::Key(_) | Event::Mouse(_) | Event::Paste(_));
        self.is_urgent |= is_urgent;
        if is_urgent || !matches!(event, Event::Fresh(_) | Event::Workers(_) | Event::Tick) {
            self.touched_at = Instant::now();
        }
        let effects = update(&mut self.model, event);
        self.mark_dirty();
        for effect in effects {
            match effect {
                Effect::Terminal(effect) => self.on_terminal(effect, guard).await?,
                effect => self.performer.perform(effect),
            }
        }
        Ok(())
    }

    async fn on_terminal(
        &mut self,
        effect: TerminalEffect,
        guard: &mut Guard,
    ) -> Result<(), TuiError> {
        match effect {
            TerminalEffect::Copy(id) => {
                let sequence = terminal::clipboard(&id);
                let out = self.screen.writer();
                io::Write::write_all(out, sequence.as_bytes())?;
                io::Write::flush(out)?;
                Box::pin(self.handle(Event::Outcome(Outcome::Copied(id)), guard)).await
            }
            TerminalEffect::Redraw => {
                self.screen.forget();
                Ok(())
            }
            TerminalEffect::Suspend => Box::pin(self.suspend(guard, true)).await,
            TerminalEffect::Edit(target, payload) => {
                // The editor reads the keys: nobody else may. The old reader is gone before there is
                // a new one, which would wait for the old one's next key.
                self.input = None;
                guard.leave();
                let result = tokio::select! {
                    result = effect::edit(&payload) => result,
                    () = terminal::panicked() => Err("a part of redrive panicked".to_owned()),
                };
                guard.enter()?;
                self.input = Some(EventStream::new());
                self.screen.forget();
                let size = crossterm::terminal::size()?;
                self.model.size = size;
                let outcome = Outcome::Edited(target, result);
                Box::pin(self.handle(Event::Outcome(outcome), guard)).await
            }
        }
    }

    /// Gives the terminal back, stops, and starts anew when the process goes on.
    async fn suspend(&mut self, guard: &mut Guard, with_group: bool) -> Result<(), TuiError> {
        guard.leave();
        terminal::stop(with_group);
        guard.enter()?;
        self.screen.forget();
        self.model.size = crossterm::terminal::size()?;
        Box::pin(self.handle(Event::Resumed, guard)).await
    }

    fn draw(&mut self) -> Result<(), TuiError> {
        let mut buf = self.screen.blank(self.model.screen());
        view::draw(&self.model, &mut buf);
        self.screen.show(buf)?;
        self.is_dirty = false;
        self.is_urgent = false;
        self.drawn_at = Some(Instant::now());
        Ok(())
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn translate(input: Input) -> Wake {
    match input {
        Input::Key(key) => Wake::Event(Event::Key(key)),
        Input::Paste(text) => Wake::Event(Event::Paste(text)),
        Input::Mouse(mouse) => Wake::Event(Event::Mouse(mouse)),
        Input::Resize(width, height) => Wake::Event(Event::Resize(width, height)),
        Input::FocusGained | Input::FocusLost => Wake::Time,
    }
}
