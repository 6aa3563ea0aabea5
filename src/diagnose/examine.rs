//! Looking as often as a verdict needs, once: for the command line and for a scrape. And one glance, for who
//! wants the numbers and is told what catches the eye.

use crate::observe::Observer;
use crate::observe::snapshot::{CauseSnapshot, FlowSnapshot, HealthSnapshot, Unread};

use super::sight::Sight;
use super::verdict::{Severity, Verdict};
use super::watch::{Patience, Watch};

/// What an examination found.
#[derive(Clone, Debug, PartialEq)]
pub struct Examination {
    /// The worst first.
    pub verdicts: Vec<Verdict>,
    /// What could not be read in the last look.
    pub unread: Vec<Unread>,
    /// Looks that were made.
    pub looks: u32,
}

impl Examination {
    /// True when something is wrong beyond not being able to see.
    pub fn is_anything_wrong(&self) -> bool {
        self.verdicts.iter().any(|verdict| !is_blindness(verdict))
    }
}

/// What one look finds wrong, the worst first. What needs a second look, or could not be looked at, is not in it.
pub fn glance(
    observer: &Observer,
    health: &HealthSnapshot,
    flow: &FlowSnapshot,
    causes: &CauseSnapshot,
) -> Vec<Verdict> {
    let mut watch = Watch::default();
    let at_once = Patience {
        looks: 1,
        quiet_looks: 1,
    };
    watch.look_at_all(
        &Sight {
            context: &observer.ports().context,
            at: observer.ports().clock.now(),
            health: Some(health),
            flow: Some(flow),
            causes: Some(causes),
            before: None,
        },
        at_once,
    );
    let mut verdicts = watch.verdicts();
    verdicts.retain(|verdict| !is_blindness(verdict));
    verdicts
}

/// A server that is away, and what cannot be seen: nobody knows how the pipeline stands there.
fn is_blindness(verdict: &Verdict) -> bool {
    verdict.severity == Severity::Unseen || verdict.id == "server_unreachable"
}

/// Looks once more than a verdict needs, a refresh apart: the first look is what rates are taken against.
pub async fn examine(observer: &Observer) -> Examination {
    let context = &observer.ports().context;
    let patience = Patience::from(&context.verdicts);
    let mut watch = Watch::default();
    let mut unread = Vec::new();
    let looks = patience.looks.saturating_add(1);
    for look in 0..looks {
        if look > 0 {
            tokio::time::sleep(context.thresholds.refresh).await;
            observer.ask_anew();
        }
        // Each on the heap: together they are more than a stack should hold.
        let (health, flow, causes) = tokio::join!(
            Box::pin(observer.health()),
            Box::pin(observer.flow()),
            Box::pin(observer.causes())
        );
        watch.look_at_all(
            &Sight {
                context,
                at: observer.ports().clock.now(),
                health: Some(&health),
                flow: Some(&flow),
                causes: Some(&causes),
                before: None,
            },
            patience,
        );
        unread = down(&health);
        for part in flow.unread.into_iter().chain(causes.unread()) {
            let is_told = unread.iter().any(|known: &Unread| known.what == part.what);
            if !is_told {
                unread.push(part);
            }
        }
    }
    Examination {
        verdicts: watch.verdicts(),
        unread,
        looks,
    }
}

/// Servers that did not answer.
fn down(health: &HealthSnapshot) -> Vec<Unread> {
    let servers = health.databases.iter();
    servers
        .chain([&health.broker, &health.management])
        .filter(|server| server.is_up == Some(false))
        .map(|server| Unread {
            what: server.name.clone(),
            reason: server.detail.clone(),
            is_unreachable: true,
        })
        .collect()
}
