//! report: an outcome as text and files: the table, `NAME.json`, `NAME.svg`, further pictures, and how far the bench came.
//!
//! The same for a bench that is done and one that was interrupted; the latter says so in the table, in the picture's title, and by
//! `"rounds": {"done", "asked"}` in its JSON.

use anyhow::Result;
use serde_json::json;

use crate::bench::plan::{Form, Plan};
use crate::bench::{Outcome, ROUNDS_MIN, against, chart};
use crate::supervise::Results;

/// Before the first round is complete.
pub(super) fn keep_nothing(plan: &Plan) -> Result<()> {
    let text = format!("interrupted after 0 of {} rounds: no figures\n", plan.rounds);
    (plan.keep)(&Results { text, files: Vec::new() })
}

/// Keeps the outcome of so many rounds.
pub(super) fn keep(plan: &Plan, done: usize, outcome: &Outcome) -> Result<()> {
    let compared = (plan.form == Form::Against).then(|| against::compare(&outcome.figures, done));
    let mut value = outcome.figures.json();
    value["rounds"] = json!({ "done": done, "asked": plan.rounds });
    let mut text = String::new();
    match &compared {
        None => text += &outcome.figures.table(),
        Some(compared) => {
            value["against"] = against::json(compared);
            text += &against::table(compared);
        }
    }
    // SANITY: maps with string keys and finite numbers always serialise.
    let json = serde_json::to_string_pretty(&value).expect("figures are plain data") + "\n";
    let mark = mark(done, plan.rounds);
    let title = [Some(&outcome.title), mark.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>();
    let svg = chart::svg(&title.join(", "), &outcome.figures);
    let mut files = vec![(format!("{}.json", plan.name), json), (format!("{}.svg", plan.name), svg)];
    let pictures = plan.plots.map(|plots| plots(&value)).unwrap_or_default();
    files.extend(pictures.into_iter().map(|(name, picture)| (format!("{name}.svg"), picture)));
    let bars: &[String] = if plan.form == Form::Full { &outcome.bars } else { &[] };
    for line in bars.iter().chain(&outcome.remarks).chain(&mark).chain([&plan.origin]) {
        text += &format!("{line}\n");
    }
    for (name, _) in &files {
        text += &format!("{}\n", plan.folder.join(name).display());
    }
    (plan.keep)(&Results { text, files })
}

/// What is said of a bar, with so many decimals of what was measured.
pub(super) fn verdict(value: Option<f64>, decimals: usize, is_met: impl Fn(f64) -> bool) -> String {
    let said = |value: f64| format!("{}: {value:.decimals$}", met(is_met(value)));
    value.map_or_else(|| "not measured".to_owned(), said)
}

pub(super) fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT met" }
}

/// What is to be said of the number of rounds, if anything is.
fn mark(done: usize, asked: usize) -> Option<String> {
    let few = if done < ROUNDS_MIN {
        format!(": fewer than {ROUNDS_MIN} give no interval worth the name")
    } else {
        String::new()
    };
    match done {
        done if done < asked => Some(format!("interrupted after {done} of {asked} rounds{few}")),
        1 => Some(format!("1 round{few}")),
        done if done < ROUNDS_MIN => Some(format!("{done} rounds{few}")),
        _ => None,
    }
}
