//! plan: what one run of a bench is to measure: which weirs, beside whom, for how many rounds, and how thoroughly.
//!
//! A bench asks the plan for its sides. Those that are weir's own it has once for each [`Weir`] of the plan; in its full form there is one
//! weir, `weir`, and its peers beside it. Against another weir there are three and no peers: `weir`, the other one (`against`), and
//! `weir` a second time (`A/A`). So a bench knows neither options nor comparisons: what it adds to its figures for the three subjects is
//! compared by [`super::against`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use testkit::paths::quoted;

use crate::bench::against::AGAINST;
use crate::bench::figures::WEIR;
use crate::supervise::Results;

/// The side without any tracer.
pub(super) const BARE: &str = "bare";
/// What is measured a second time: in a full bench the bare side, against another weir `weir`.
pub(super) const AGAIN: &str = "A/A";

/// How thorough a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As `docs/bench/README.md` describes it.
    Full,
    /// Two weirs and no peers, in at most ten minutes.
    Against,
    /// One round of as little as can be measured: does it run?
    Smoke,
}

impl Form {
    /// The one of three that is meant for this form.
    pub(super) fn pick<T>(self, full: T, against: T, smoke: T) -> T {
        match self {
            Form::Full => full,
            Form::Against => against,
            Form::Smoke => smoke,
        }
    }
}

/// A weir that is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Weir {
    /// Whose figures its are.
    pub(super) subject: &'static str,
    pub(super) program: PathBuf,
}

impl Weir {
    /// `weir` alone, or `weir`, the other one, and `weir` again.
    pub(super) fn all(own: PathBuf, other: Option<PathBuf>) -> Vec<Weir> {
        let weir = |subject, program| Weir { subject, program };
        match other {
            None => vec![weir(WEIR, own)],
            Some(other) => vec![weir(WEIR, own.clone()), weir(AGAINST, other), weir(AGAIN, own)],
        }
    }
}

impl fmt::Display for Weir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.subject)
    }
}

/// Where results go after each round.
pub(super) type Keep = Box<dyn Fn(&Results) -> Result<()>>;

pub(super) struct Plan {
    /// Of its files: `NAME.json`, `NAME.svg`.
    pub(super) name: String,
    /// Below target/.
    pub(super) folder: PathBuf,
    pub(super) rounds: usize,
    pub(super) form: Form,
    /// None in a bench that runs no weir.
    pub(super) weirs: Vec<Weir>,
    /// Machine and commit.
    pub(super) origin: String,
    /// Further pictures of the bench's JSON.
    pub(super) plots: Option<super::Plots>,
    pub(super) keep: Keep,
}

impl Plan {
    pub(super) fn has_peers(&self) -> bool {
        self.form == Form::Full
    }

    /// Names of the sides without a tracer: two, where they are the A/A.
    pub(super) fn bare(&self) -> &'static [&'static str] {
        self.form.pick(&[BARE, AGAIN], &[BARE], &[BARE])
    }

    /// Sides of a bench in which each tracer does the same: bare, the weirs, and peers.
    pub(super) fn sides(&self, peers: &[&'static str]) -> Vec<Side> {
        let bare = self.bare().iter().map(|name| Side { subject: name, tracer: Tracer::None });
        let weirs = self.weirs.iter();
        let weirs =
            weirs.map(|weir| Side { subject: weir.subject, tracer: Tracer::Weir(weir.program.clone()) });
        let peers = peers.iter().map(|name| Side { subject: name, tracer: Tracer::Peer(name) });
        bare.chain(weirs).chain(peers).collect()
    }
}

/// What is run once a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Side {
    pub(super) subject: &'static str,
    pub(super) tracer: Tracer,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tracer {
    None,
    Weir(PathBuf),
    /// A program of this name.
    Peer(&'static str),
}

impl Tracer {
    pub(super) fn program(&self) -> Option<&Path> {
        match self {
            Tracer::None => None,
            Tracer::Weir(program) => Some(program),
            Tracer::Peer(name) => Some(Path::new(name)),
        }
    }

    /// Its command, to which scripts are added; without a tracer `program` itself.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(self.program().unwrap_or(program));
        if let Tracer::Weir(_) = self {
            command.arg("trace");
        }
        command
    }

    /// The path of a program as a word of its `-c`. Those of others know no quotes there, and split it at blanks.
    pub(super) fn word(&self, program: &Path) -> String {
        match self {
            Tracer::Weir(_) => quoted(program),
            Tracer::None | Tracer::Peer(_) => program.display().to_string(),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rounds::tests::plan;

    fn subjects(form: Form, other: Option<PathBuf>) -> Vec<&'static str> {
        let mut plan = plan(1, Box::new(|_| Ok(())));
        plan.form = form;
        plan.weirs = Weir::all("now".into(), other);
        let peers: &[&str] = if plan.has_peers() { &["bpftrace"] } else { &[] };
        plan.sides(peers).iter().map(|side| side.subject).collect()
    }

    #[test]
    fn each_weir_is_a_side() {
        assert_eq!(subjects(Form::Full, None), [BARE, AGAIN, WEIR, "bpftrace"]);
        assert_eq!(subjects(Form::Against, Some("then".into())), [BARE, WEIR, AGAINST, AGAIN]);
        assert_eq!(subjects(Form::Smoke, None), [BARE, WEIR]);
    }

    #[test]
    fn the_second_weir_of_the_same_name_is_the_same_program() {
        let weirs = Weir::all("now".into(), Some("then".into()));
        let programs: Vec<&str> = weirs.iter().filter_map(|weir| weir.program.to_str()).collect();
        assert_eq!(programs, ["now", "then", "now"]);
    }
}
