//! `weir ps`: every traced process, with who traces it, since when, at how many places, and what its probes cost.
//!
//! In: what weir-probe finds in `/proc`. Out: a table, or an object a process. What is not known is `-` or null; rates are those
//! of the last second, as the process's weir says them ([`Told`]).

use std::process::ExitCode;
use std::time::Duration;

use nix::unistd::{Uid, User};
use serde_json::{Value, json};
use weir_policy::figures::ProbeFigures;
use weir_probe::scan::{Look, Probed, Spoiled};
use weir_run::percent;

use crate::args;
use crate::failure::Failure;
use crate::manage::told::Told;
use crate::manage::{look_by_rules, tell_unseen};
use crate::print::{print, printable};

/// The table of `weir ps`, one line a traced process, or one object.
pub(crate) fn ps(args: &args::Ps) -> Result<ExitCode, Failure> {
    let mut look = look_by_rules()?;
    order(&mut look.found);
    let printed = print(&match args.format {
        args::Format::Text => table(&look),
        args::Format::Json => {
            let objects = look.found.iter().map(object).chain(look.spoiled.iter().map(object_of_spoiled));
            objects.map(|object| format!("{object}\n")).collect()
        }
    });
    tell_unseen(&look);
    printed
}

/// Processes of one run stand together, the oldest run first.
fn order(found: &mut [Probed]) {
    found.sort_by_key(|probed| {
        let identity = &probed.identity;
        (identity.controller_start, identity.controller_pid, probed.pid)
    });
}

fn table(look: &Look) -> String {
    let mut table = format!(
        "{:>7} {:<15} {:>7} {:<10} {:>8} {:>6} {:>9} {:>6} {:>8} {:>6}  PROBES\n",
        "PID", "COMMAND", "WEIR", "USER", "AGE", "SITES", "HITS/S", "SHARE", "MISSED", "LOST"
    );
    for line in look.found.iter().map(line).chain(look.spoiled.iter().map(line_of_spoiled)) {
        table += &line;
        table += "\n";
    }
    table
}

fn line(probed: &Probed) -> String {
    let identity = &probed.identity;
    let controller = match probed.controller_alive {
        true => identity.controller_pid.to_string(),
        false => "gone".into(),
    };
    let (user, age) = match probed.other_version {
        Some(_) => ("?".into(), "?".into()),
        None => (user(identity.uid).unwrap_or_else(|| identity.uid.to_string()), age(probed.age())),
    };
    let label = match (probed.is_inherited(), probed.other_version) {
        (true, _) => format!("(none: forked from {})", identity.target_pid),
        (false, Some(version)) => format!("(not known: by a weir of ABI version {version})"),
        (false, None) => printable(&identity.label),
    };
    let comm = printable(&probed.comm);
    let costs = costs(Told::of(probed).as_ref());
    format!(
        "{:>7} {comm:<15} {controller:>7} {user:<10} {age:>8} {:>6} {costs}  {label}",
        probed.pid, probed.probes
    )
}

fn line_of_spoiled(spoiled: &Spoiled) -> String {
    let (pid, comm, costs) = (spoiled.pid, printable(&spoiled.comm), costs(None));
    let controller = spoiled.controller.map_or_else(|| "gone".into(), |pid| pid.to_string());
    let label = format!("(corrupt: {}; `weir detach -p {pid}` restores it)", spoiled.detail);
    format!("{pid:>7} {comm:<15} {controller:>7} {:<10} {:>8} {:>6} {costs}  {label}", "?", "?", "?")
}

/// The columns from HITS/S to LOST.
fn costs(told: Option<&Told>) -> String {
    let Some(told) = told else { return format!("{:>9} {:>6} {:>8} {:>6}", "-", "-", "-", "-") };
    let total = told.total();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let about = if total.missed_about > 0 { "~" } else { "" };
    format!(
        "{:>9} {:>6} {:>8} {:>6}",
        or_dash(told.hits_per_s(&total).map(|rate| format!("{rate:.0}"))),
        or_dash(told.share(&total).map(percent)),
        format!("{about}{}", total.missed.saturating_add(total.missed_about)),
        told.records_lost
    )
}

/// What is not known of a weir of another version is null.
fn object(probed: &Probed) -> Value {
    let identity = &probed.identity;
    let known = probed.other_version.is_none().then_some(identity);
    let told = Told::of(probed);
    let total = told.as_ref().map(|told| (told, told.total()));
    let total = total.as_ref();
    json!({
        "pid": probed.pid,
        "comm": probed.comm,
        "weir": probed.controller_alive.then_some(identity.controller_pid),
        "uid": known.map(|identity| identity.uid),
        "user": known.and_then(|identity| user(identity.uid)),
        "age_seconds": known.map(|_| probed.age().as_secs()),
        "sites": known.map(|_| probed.probes),
        "probes": known.filter(|_| !probed.is_inherited()).map(|identity| &identity.label),
        "hits_per_s": total.and_then(|(told, total)| told.hits_per_s(total)),
        "share": total.and_then(|(told, total)| told.share(total)),
        "hits": total.map(|(_, total)| total.hits),
        "hits_about": total.map(|(_, total)| total.hits_about),
        "missed": total.map(|(_, total)| total.missed),
        "missed_about": total.map(|(_, total)| total.missed_about),
        "records_lost": told.as_ref().map(|told| told.records_lost),
        "told_seconds_ago": told.as_ref().map(|told| told.age.as_secs_f64()),
        "is_current": told.as_ref().map(Told::is_current),
        "figures": told.as_ref().map(|told| {
            told.figures.probes.iter().map(|probe| of_probe(told, probe)).collect::<Vec<_>>()
        }),
        "inherited_from": probed.is_inherited().then_some(identity.target_pid),
        "other_version": probed.other_version,
        "corrupt": null,
    })
}

/// Nothing else is known of it.
fn object_of_spoiled(spoiled: &Spoiled) -> Value {
    json!({ "pid": spoiled.pid, "comm": spoiled.comm, "weir": spoiled.controller, "corrupt": spoiled.detail })
}

fn of_probe(told: &Told, probe: &ProbeFigures) -> Value {
    json!({
        "probe": probe.probe,
        "state": probe.state(),
        "hits_per_s": told.hits_per_s(probe),
        "ns_per_hit": told.ns_per_hit(probe),
        "share": told.share(probe),
        "hits": probe.hits,
        "hits_about": probe.hits_about,
        "missed": probe.missed,
        "missed_about": probe.missed_about,
    })
}

fn user(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use weir_rt::segment::Identity;

    use super::*;
    use crate::manage::told;

    fn probed(pid: i32, controller: (u32, u64), identity: Identity) -> Probed {
        let (controller_pid, controller_start) = controller;
        let identity = Identity { controller_pid, controller_start, ..identity };
        let comm = "a\n\"b".into();
        let (other_version, stats_page) = (None, None);
        Probed {
            pid,
            comm,
            identity,
            controller_alive: true,
            probes: 3,
            other_version,
            stats_page,
            children_wait: false,
        }
    }

    fn own(pid: u32) -> Identity {
        Identity { target_pid: pid, label: "uprobe:/x:f".into(), ..Identity::default() }
    }

    #[test]
    fn processes_of_one_run_stand_together() {
        let of = |pid: i32, controller| probed(pid, controller, own(pid as u32));
        let mut found = vec![of(10, (90, 7)), of(11, (80, 9)), of(12, (90, 7)), of(13, (90, 9))];
        order(&mut found);
        assert_eq!(found.iter().map(|probed| probed.pid).collect::<Vec<_>>(), [10, 12, 11, 13]);
    }

    #[test]
    fn objects_say_what_is_known_and_nothing_else() {
        let traced = object(&probed(10, (90, 7), own(10)));
        let text = traced.to_string();
        assert!(!text.contains('\n'), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["pid"], &read["comm"], &read["weir"]), (&json!(10), &json!("a\n\"b"), &json!(90)));
        assert_eq!((&read["uid"], &read["user"]), (&json!(0), &json!("root")));
        assert_eq!((&read["sites"], &read["probes"]), (&json!(3), &json!("uprobe:/x:f")));
        assert_eq!((&read["inherited_from"], &read["other_version"]), (&Value::Null, &Value::Null));
        let forked = object(&probed(11, (90, 7), own(10)));
        assert_eq!((&forked["probes"], &forked["inherited_from"]), (&Value::Null, &json!(10)));
        let mut other = probed(12, (90, 7), own(12));
        (other.controller_alive, other.other_version) = (false, Some(1));
        let other = object(&other);
        for key in ["weir", "uid", "user", "age_seconds", "sites", "probes", "hits_per_s", "share", "figures"]
        {
            assert_eq!(other[key], Value::Null, "{key}");
        }
        assert_eq!(other["other_version"], json!(1));
    }

    #[test]
    fn what_probes_cost_is_in_both_forms() {
        let mut probed = told::tests::probed();
        let columns = |probed: &Probed| {
            line(probed).split_whitespace().skip(6).take(4).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(columns(&probed), ["2000", "1.0%", "~7", "5"]);
        let whole = object(&probed);
        assert_eq!((&whole["hits_per_s"], &whole["share"]), (&json!(2000.0), &json!(0.01)));
        assert_eq!(
            (&whole["missed"], &whole["missed_about"], &whole["records_lost"]),
            (&json!(3), &json!(4), &json!(5))
        );
        let probe = &whole["figures"][0];
        assert_eq!((&probe["probe"], &probe["state"]), (&json!("uprobe:/x:f"), &json!("armed")));
        assert_eq!((&probe["ns_per_hit"], &probe["hits"]), (&json!(500.0), &json!(40)));
        probed.controller_alive = false;
        assert_eq!(columns(&probed), ["-", "-", "~7", "5"]);
        let whole = object(&probed);
        assert_eq!((&whole["is_current"], &whole["hits_per_s"]), (&json!(false), &Value::Null));
        assert_eq!((&whole["figures"][0]["share"], &whole["missed"]), (&Value::Null, &json!(3)));
        probed.stats_page = None;
        assert_eq!(columns(&probed), ["-"; 4]);
    }
}
