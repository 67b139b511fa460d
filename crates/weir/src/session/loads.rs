//! Libraries that come and go while a run lasts: probes what comes, and keeps count for the summary.
//!
//! In: the places of a plan, and the attachment, asked again and again. Out: messages with `-v`, what cannot be probed in any
//! case, and a coverage in which the outcome of a place is that of the last time that its library came.

use weir_probe::loads::{Change, Unanswered};
use weir_probe::{Attach, Attachment, Outcome, SiteRequest};

use crate::print::{printable, tell};
use crate::report::Loads;
use crate::session::attach::{ms, of_process};
use crate::session::stages::{self, Site};
use crate::session::summary::Coverage;

/// What came and went is told so often; the summary has the count.
const TOLD_MAX: u32 = 10;

pub(crate) struct Followed {
    /// Of each place its programs, by the numbers of executables.
    wanted: Vec<Vec<Attach>>,
    outcomes: Vec<Outcome>,
    loads: Loads,
    /// The process, where it is told of several.
    of: String,
    is_verbose: bool,
    told: u32,
}

impl Followed {
    /// What was armed.
    pub(crate) fn new(
        wanted: Vec<Vec<Attach>>,
        attachment: &Attachment,
        named: Option<i32>,
        is_verbose: bool,
    ) -> Followed {
        let of = of_process(named);
        if is_verbose && let Some(refusal) = attachment.loads_refused() {
            tell!("weir: {of}{refusal}");
        }
        if is_verbose && let Some(refusal) = attachment.filters_unseen() {
            tell!("weir: {of}{refusal}");
        }
        Followed {
            wanted,
            outcomes: attachment.outcomes().to_vec(),
            loads: Loads::default(),
            of,
            is_verbose,
            told: 0,
        }
    }

    /// Of each place what became of it, as of now.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// How often that has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.loads.loaded + self.loads.unloaded + self.loads.unanswered
    }

    /// Probes what has come, and forgets what has gone; `coverage` says it then.
    pub(crate) fn look(&mut self, attachment: &mut Attachment, sites: &[Site], coverage: &mut Coverage) {
        if !attachment.has_loads() {
            return;
        }
        let requests: Vec<SiteRequest> =
            sites.iter().zip(&self.wanted).map(|(site, programs)| site.request(programs.clone())).collect();
        let (change, done) = attachment.follow_loads(&requests);
        self.note(change, sites, coverage);
        match done {
            // Where the target has ended, that is seen elsewhere.
            Ok(()) | Err(weir_probe::Error::TargetGone { .. } | weir_probe::Error::Replaced { .. }) => {}
            Err(error) => tell!("weir: {}probing what was loaded failed: {error}", self.of),
        }
    }

    /// What nobody has looked at when the process has ended, or is let go of: it may have gone on without weir, and loaded
    /// and called anything, between the last look and that.
    pub(crate) fn finish(&mut self, attachment: &mut Attachment, sites: &[Site], coverage: &mut Coverage) {
        let change = Change { unanswered: attachment.unanswered(), ..Change::default() };
        self.note(change, sites, coverage);
    }

    fn note(&mut self, change: Change, sites: &[Site], coverage: &mut Coverage) {
        if !change.is_nothing() {
            self.take_note(change, sites);
            *coverage = Coverage::of(sites, &self.outcomes, self.loads);
        }
    }

    fn take_note(&mut self, change: Change, sites: &[Site]) {
        for gone in change.unloaded {
            self.loads.unloaded += 1;
            if self.is_verbose {
                let path = printable(&gone.path);
                self.tell(&format!("{path} was unloaded, and {} probes with it", gone.probes));
            }
        }
        let Unanswered { count, unprobed } = change.unanswered;
        for came in change.loaded {
            self.loads.loaded += 1;
            let probes = came.outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count();
            if self.is_verbose || count > 0 {
                let unprobed = match count {
                    0 => String::new(),
                    _ => format!("; it may have run unprobed for {}", ms(unprobed)),
                };
                let path = printable(&came.path);
                self.tell(&format!("{path} was loaded: {probes} probes{unprobed}"));
            }
            self.take(came.outcomes, sites);
        }
        self.take(change.retried, sites);
        self.loads.unanswered += u64::from(count);
        self.loads.unprobed += unprobed;
    }

    /// A program may load and unload hundreds of times a second.
    fn tell(&mut self, what: &str) {
        self.told += 1;
        if self.told <= TOLD_MAX {
            tell!("weir: {}{what}", self.of);
        }
        if self.told == TOLD_MAX {
            tell!(
                "weir: {}what is loaded and unloaded from here on is counted, and not told one by one",
                self.of
            );
        }
    }

    /// Takes the outcomes of places, and tells those that are refused now and were not before.
    fn take(&mut self, outcomes: Vec<(usize, Outcome)>, sites: &[Site]) {
        let mut refused = Vec::new();
        for (index, outcome) in outcomes {
            let was = self.outcomes[index].as_ref().err().map(|refusal| refusal.code());
            if let Err(refusal) = &outcome
                && was != Some(refusal.code())
            {
                refused.push(format!("weir:   {}: {refusal}", sites[index].label(refusal)));
            }
            self.outcomes[index] = outcome;
        }
        if !refused.is_empty() {
            tell!("weir: {}{} {} are not probed:", self.of, refused.len(), stages::places(sites));
            let shown = if self.is_verbose { refused.len() } else { refused.len().min(3) };
            refused[..shown].iter().for_each(|line| tell!("{line}"));
            if shown < refused.len() {
                tell!("weir:   and {} more (-v names them)", refused.len() - shown);
            }
        }
    }
}
