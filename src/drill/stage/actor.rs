//! Workers of a drill: which, what they meet at a crash point, and what is done to them.

use std::time::Duration;

use super::child::{Child, Start};
use super::task::Crew;
use super::{Stage, Totals};
use crate::base::crash::ARMED;
use crate::drill::trouble::Trouble;
use crate::pipeline;

/// Which workers an actor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// Kind of worker; every kind when `None`.
    pub kind: Option<&'static str>,
    /// Service; every one when `None`.
    pub service: Option<&'static str>,
}

impl Role {
    /// The whole pipeline.
    pub const ALL: Self = Self {
        kind: None,
        service: None,
    };

    /// One kind of worker for one service.
    pub const fn of(kind: &'static str, service: &'static str) -> Self {
        Self {
            kind: Some(kind),
            service: Some(service),
        }
    }

    /// The dispatcher of a service.
    pub const fn dispatcher(service: &'static str) -> Self {
        Self::of(pipeline::dispatcher::NAME, service)
    }

    /// The consumer of a service.
    pub const fn consumer(service: &'static str) -> Self {
        Self::of(pipeline::consumer::NAME, service)
    }

    fn word(self) -> String {
        match (self.kind, self.service) {
            (Some(kind), Some(service)) => format!("{service}-{kind}"),
            (Some(word), None) | (None, Some(word)) => word.to_owned(),
            (None, None) => "pipeline".to_owned(),
        }
    }
}

/// What an actor meets at a crash point, the first time it comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It dies as a killed process.
    Dies(&'static str),
    /// It stands still until it is told to go on.
    Stands(&'static str),
    /// It fails there.
    Throws(&'static str),
    /// It fails (or is slow) there every time.
    AlwaysThrows(&'static str),
}

impl Fault {
    const fn point(self) -> &'static str {
        match self {
            Self::Dies(point)
            | Self::Stands(point)
            | Self::Throws(point)
            | Self::AlwaysThrows(point) => point,
        }
    }

    const fn action(self, is_process: bool) -> &'static str {
        match (self, is_process) {
            (Self::Dies(_), true) => "1*return(abort)",
            (Self::Stands(_), true) => "1*return(stop)",
            (Self::Dies(_) | Self::Stands(_), false) => "1*return(hold)",
            (Self::Throws(_), _) => "1*return(throw)",
            (Self::AlwaysThrows(_), _) => "return(throw)",
        }
    }
}

/// Workers at work.
#[derive(Debug)]
pub struct Actor {
    role: Role,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Process(Box<Child>),
    Crew(Crew),
}

impl Stage<'_> {
    /// Starts workers.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn start(&mut self, role: Role, fault: Option<Fault>) -> Result<Actor, Trouble> {
        self.run(role, fault, false)
    }

    /// Starts workers for one pass each; they end by themselves (see [`Stage::report`]).
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn start_once(&mut self, role: Role, fault: Option<Fault>) -> Result<Actor, Trouble> {
        self.run(role, fault, true)
    }

    fn run(&mut self, role: Role, fault: Option<Fault>, is_once: bool) -> Result<Actor, Trouble> {
        self.actors += 1;
        let name = format!("{}-{}", role.word(), self.actors);
        let body = if let Some(lines) = &self.lines {
            let mut arguments: Vec<String> = lines.global_arguments();
            arguments.push("worker".to_owned());
            arguments.extend(role.kind.map(str::to_owned));
            if let Some(service) = role.service {
                arguments.extend(["--service".to_owned(), service.to_owned()]);
            }
            if is_once {
                arguments.push("--once".to_owned());
            }
            Body::Process(Box::new(self.process(name.clone(), arguments, fault)?))
        } else {
            let workers = self.bench.workers(role)?;
            let point = fault.map(|fault| {
                ARMED.arm(fault.point(), fault.action(false));
                fault.point()
            });
            Body::Crew(Crew::start(
                name.clone(),
                workers,
                (point, is_once),
                &self.tasks,
            ))
        };
        self.step(match fault {
            Some(fault) => format!("started {name}, which meets {fault:?}"),
            None => format!("started {name}"),
        });
        Ok(Actor { role, body })
    }

    /// Starts this program with other arguments, in the drill's context.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn process(
        &self,
        name: String,
        arguments: Vec<String>,
        fault: Option<Fault>,
    ) -> Result<Child, Trouble> {
        let lines = self.lines()?;
        let mut points = self.bench.guards_off.clone();
        points.extend(fault.map(|fault| format!("{}={}", fault.point(), fault.action(true))));
        let mut env = lines.env().to_vec();
        if !points.is_empty() {
            env.push(("FAILPOINTS".to_owned(), points.join(";")));
        }
        Child::start(Start {
            program: &self.bench.program,
            folder: lines.folder(),
            name,
            arguments,
            env,
        })
    }

    /// Waits until an actor has died at its crash point. A consumer there has had a delivery.
    ///
    /// # Errors
    /// When it does not die in time.
    pub async fn dies(&mut self, actor: &mut Actor) -> Result<(), Trouble> {
        match &mut actor.body {
            Body::Process(child) => {
                let signal = child.dies(self.patience()).await?;
                self.step(format!("{} died of signal {signal}", actor.role.word()));
            }
            Body::Crew(crew) => {
                crew.dies(self.patience()).await?;
                self.step(format!("{} died", actor.role.word()));
            }
        }
        self.delivered(actor.role, 1);
        Ok(())
    }

    /// Waits until an actor stands at its crash point.
    ///
    /// # Errors
    /// When it does not come there in time.
    pub async fn stands(&mut self, actor: &Actor) -> Result<(), Trouble> {
        match &actor.body {
            Body::Process(child) => child.stands(self.patience()).await?,
            Body::Crew(crew) => crew.stands(self.patience()).await?,
        }
        self.step(format!("{} stands at its crash point", actor.role.word()));
        Ok(())
    }

    /// True when an actor stands at its crash point now.
    pub async fn is_standing(&self, actor: &Actor) -> bool {
        match &actor.body {
            Body::Process(child) => child.stands(Duration::ZERO).await.is_ok(),
            Body::Crew(crew) => crew.stands(Duration::ZERO).await.is_ok(),
        }
    }

    /// Stops a process where it is, as `kill -STOP` does, and waits until it stands still.
    ///
    /// # Errors
    /// When it is gone, or is none.
    pub async fn freeze(&mut self, actor: &Actor) -> Result<(), Trouble> {
        match &actor.body {
            Body::Process(child) => {
                child.freeze()?;
                child.stands(self.patience()).await?;
            }
            Body::Crew(_) => {
                return Err(Trouble::Stuck(
                    "only a process can be stopped anywhere".to_owned(),
                ));
            }
        }
        self.step(format!("{} stands still", actor.role.word()));
        Ok(())
    }

    /// Lets an actor go on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn goes_on(&mut self, actor: &Actor) -> Result<(), Trouble> {
        match &actor.body {
            Body::Process(child) => child.go_on()?,
            Body::Crew(crew) => crew.go_on()?,
        }
        self.step(format!("{} goes on", actor.role.word()));
        Ok(())
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill(&mut self, mut actor: Actor) -> Result<(), Trouble> {
        match &mut actor.body {
            Body::Process(child) => child.kill().await?,
            Body::Crew(crew) => crew.kill().await?,
        }
        self.step(format!("killed {}", actor.role.word()));
        Ok(())
    }

    /// Stops an actor in peace; what it counted.
    ///
    /// # Errors
    /// When it does not stop in time.
    pub async fn stop(&mut self, mut actor: Actor) -> Result<Totals, Trouble> {
        let totals = match &mut actor.body {
            Body::Process(child) => child.stop().await?,
            Body::Crew(crew) => crew.stop().await?,
        };
        self.step(format!("stopped {}: {totals}", actor.role.word()));
        self.reckon(&totals);
        Ok(totals)
    }

    /// Waits until an actor that makes one pass has ended; what it counted.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn report(&mut self, mut actor: Actor) -> Result<Totals, Trouble> {
        let totals = match &mut actor.body {
            Body::Process(child) => child.report(self.patience()).await?,
            Body::Crew(crew) => crew.report(self.patience()).await?,
        };
        self.step(format!("{} made its pass: {totals}", actor.role.word()));
        self.reckon(&totals);
        Ok(totals)
    }

    /// Deliveries so far were of what was there before.
    pub fn forget_deliveries(&mut self) {
        self.deliveries.clear();
    }

    fn reckon(&mut self, totals: &Totals) {
        for (service, n) in totals.deliveries() {
            *self.deliveries.entry(service).or_default() += n;
        }
    }

    fn delivered(&mut self, role: Role, n: u64) {
        if let (Some(pipeline::consumer::NAME), Some(service)) = (role.kind, role.service) {
            *self.deliveries.entry(service.to_owned()).or_default() += n;
        }
    }

    /// Waits until an actor's log says something; the embedded pipeline has none.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn says(&self, actor: &Actor, words: &str) -> Result<(), Trouble> {
        match &actor.body {
            Body::Process(child) => child.says(words, self.patience()).await,
            Body::Crew(_) => Ok(()),
        }
    }
}
