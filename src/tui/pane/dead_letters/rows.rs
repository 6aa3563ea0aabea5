//! Which causes and rows the pane shows, by what was read and what was asked for.

use super::{ALL_CAUSES, DeadLetters, Part, SPEC};
use crate::model::dead_letter::{DeadLetter, DeadLetterGroup};
use crate::model::filter::InService;
use crate::observe::snapshot::DeadLetterView;
use crate::tui::world::World;

fn group_id(service: &str, group: &DeadLetterGroup) -> String {
    format!(
        "{service}\u{1f}{}\u{1f}{}\u{1f}{}",
        group.consumer,
        group.event_type.as_deref().unwrap_or("\u{0}"),
        group.error_class
    )
}

impl DeadLetters {
    pub(super) fn group<'a>(
        &self,
        world: &'a World,
        index: usize,
    ) -> Option<(&'a str, &'a DeadLetterGroup)> {
        // The first line stands for all causes.
        let (service, group) = *self.group_places.get(index.checked_sub(1)?)?;
        let part = world
            .readings
            .dead_letters
            .value
            .as_deref()?
            .services
            .get(service)?;
        Some((
            part.service.as_str(),
            part.value.as_ref()?.groups.groups.get(group)?,
        ))
    }

    pub(super) fn selected_group<'a>(
        &self,
        world: &'a World,
    ) -> Option<(&'a str, &'a DeadLetterGroup)> {
        self.group(world, self.groups.selected()?)
    }

    pub(super) fn row<'a>(
        &self,
        world: &'a World,
        index: usize,
    ) -> Option<(&'a str, &'a DeadLetter)> {
        let (service, row) = *self.row_places.get(index)?;
        let part = world
            .readings
            .dead_letters
            .value
            .as_deref()?
            .services
            .get(service)?;
        Some((
            part.service.as_str(),
            part.value.as_ref()?.page.rows.get(row)?,
        ))
    }

    pub(super) fn selected<'a>(&self, world: &'a World) -> Option<(&'a str, &'a DeadLetter)> {
        self.row(world, self.rows.selected()?)
    }

    /// The open letter's view, if the feed's answer is about the row under the cursor.
    pub(super) fn open_view<'a>(&self, world: &'a World) -> Option<&'a DeadLetterView> {
        let (service, letter) = self.selected(world)?;
        world
            .readings
            .dead_letter
            .value
            .as_deref()?
            .as_ref()
            .filter(|view| {
                view.service == service
                    && view.detail.letter.dead_letter_id == letter.dead_letter_id
            })
    }

    pub(super) fn sync_groups(&mut self, world: &World) {
        self.group_places.clear();
        let mut ids = vec![ALL_CAUSES.to_owned()];
        if let Some(value) = world.readings.dead_letters.value.as_deref() {
            let mut found: Vec<(&str, &DeadLetterGroup, (usize, usize))> = Vec::new();
            for (service, part) in value.services.iter().enumerate() {
                if let Some(facts) = &part.value {
                    found.extend(
                        facts
                            .groups
                            .groups
                            .iter()
                            .enumerate()
                            .map(|(index, group)| (part.service.as_str(), group, (service, index))),
                    );
                }
            }
            found.sort_by(|(_, a, _), (_, b, _)| {
                b.count
                    .cmp(&a.count)
                    .then_with(|| b.last_died_at.cmp(&a.last_died_at))
            });
            for (service, group, place) in found {
                ids.push(group_id(service, group));
                self.group_places.push(place);
            }
        }
        self.groups.sync(ids);
        // A cause that is cured leaves the list; its rows are gone with it.
        if self.groups.is_gone() {
            self.groups.select_index(0);
        }
    }

    pub(super) fn sync_rows(&mut self, world: &World) {
        self.row_places.clear();
        let mut ids = Vec::new();
        let mut total = 0;
        let mut has_more = false;
        let group = self.selected_group(world);
        let status = self.status();
        // Rows of an older answer that belong to the cause are right to show at once; of another
        // page they are not.
        let payload = self.filter.payload_terms();
        let is_left = self.left == Some(world.readings.dead_letters.generation);
        let is_other = self.page.is_some() || payload.is_some();
        let is_behind = is_left || (is_other && world.is_behind(SPEC.feed));
        // Payload terms were answered by the feed: list rows carry no payload.
        let row_filter = self.filter.row_terms();
        let value = world.readings.dead_letters.value.as_deref();
        let mut found: Vec<(&str, &DeadLetter, (usize, usize))> = Vec::new();
        if let Some(value) = value.filter(|_| !is_behind) {
            for (service, part) in value.services.iter().enumerate() {
                let Some(facts) = &part.value else { continue };
                has_more |= facts.page.next.is_some();
                for (index, letter) in facts.page.rows.iter().enumerate() {
                    let is_of_group = group.is_none_or(|(name, group)| {
                        name == part.service
                            && group.consumer == letter.consumer
                            && group.event_type == letter.event_type
                            && group.error_class == letter.error_class
                    });
                    if !is_of_group || letter.status != status {
                        continue;
                    }
                    total += 1;
                    let row = InService {
                        service: &part.service,
                        row: letter,
                    };
                    if row_filter.matches(&row, world.now) {
                        found.push((part.service.as_str(), letter, (service, index)));
                    }
                }
            }
        }
        found.sort_by(|(_, a, _), (_, b, _)| {
            b.last_died_at
                .cmp(&a.last_died_at)
                .then_with(|| a.dead_letter_id.cmp(&b.dead_letter_id))
        });
        for (service, letter, place) in found {
            ids.push(format!("{service}/{}", letter.dead_letter_id));
            self.row_places.push(place);
        }
        self.total = total;
        self.rows.sync(ids);
        self.rows.set_has_more(has_more);
        if let Some(wanted) = self.wanted.take()
            && self.rows.select(&wanted)
        {
            self.part = Part::Rows;
        }
    }
}
