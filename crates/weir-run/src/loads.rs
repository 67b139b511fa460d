//! Libraries that come and go while a run lasts: probes what comes, and keeps count for the summary. Places that were busy at first
//! are tried again.
//!
//! In: the places of a plan, and the attachment, asked again and again. Out: messages with `-v`, what cannot be probed in any
//! case, and a coverage in which the outcome of a place is that of the last time that its library came.

use weir_probe::loads::{Change, Unanswered};
use weir_probe::{Attach, Attachment, DirectReads, LedAgain, Outcome, SiteRequest, Vanished};
use weir_report::Loads;
use weir_source::printable;

use crate::notice::{Notices, ms, note, of_process};
use crate::stages::{self, Site};
use crate::summary::Coverage;

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
    pub(crate) notices: Notices,
    told: u32,
    /// Places that were refused at first, and were tried again: how often their outcomes have changed.
    retried: u64,
    /// Probes that are gone, as far as reported.
    pub(crate) vanished: usize,
    /// What was said last of how memory is read.
    reads: Option<DirectReads>,
}

impl Followed {
    /// What was armed.
    pub(crate) fn new(
        wanted: Vec<Vec<Attach>>,
        attachment: &Attachment,
        named: Option<i32>,
        is_verbose: bool,
        notices: &Notices,
    ) -> Followed {
        let of = of_process(named);
        if is_verbose && let Some(refusal) = attachment.loads_refused() {
            note!(notices, Probes, "{of}{refusal}");
        }
        if is_verbose && let Some(refusal) = attachment.registering_unseen() {
            note!(notices, Probes, "{of}what LTTng-UST registers is seen late: {refusal}");
        }
        if is_verbose && let Some(refusal) = attachment.filters_unseen() {
            note!(notices, Probes, "{of}{refusal}");
        }
        Followed {
            wanted,
            outcomes: attachment.outcomes().to_vec(),
            loads: Loads::default(),
            of,
            is_verbose,
            notices: notices.clone(),
            told: 0,
            retried: 0,
            vanished: 0,
            reads: None,
        }
    }

    /// Says which probes the process has taken out itself.
    pub(crate) fn look_at_text(&mut self, attachment: &mut Attachment) {
        if let Some(Vanished { probes, within }) = attachment.look_at_text() {
            self.vanished += probes;
            note!(
                self.notices,
                Probes,
                "{}{probes} probes are gone from its text since {} ago at most: it has put that back, mapped it anew or dropped \
                 its pages (MADV_DONTNEED); calls since then are not counted",
                self.of,
                ms(within)
            );
        }
    }

    /// Says which events other tracers have taken, and that they are there again.
    pub(crate) fn look_at_calls(&mut self, attachment: &mut Attachment) {
        match attachment.look_at_calls() {
            Ok(None) => {}
            Ok(Some(LedAgain { places, within })) => note!(
                self.notices,
                Probes,
                "{}{places} events of LTTng-UST were not seen for {} at most: another tracer has begun or ended with them, or their file was \
                 registered anew",
                self.of,
                ms(within)
            ),
            Err(error) => self.tell_failure("looking after events of LTTng-UST", Err(error)),
        }
    }

    /// Says with `-v` whether programs read memory without a system call, and if not why, when that has changed.
    pub(crate) fn look_at_reads(&mut self, attachment: &Attachment) {
        if !self.is_verbose {
            return;
        }
        let now = attachment.direct_reads();
        let what = match &now {
            DirectReads::Unwanted | DirectReads::Waiting => return,
            DirectReads::On => "memory is read directly".into(),
            DirectReads::Off(why) => format!("memory is read by system calls: {why}"),
        };
        if self.reads.as_ref() != Some(&now) {
            self.reads = Some(now);
            self.tell(&printable(&what));
        }
    }

    /// Of each place what became of it, as of now.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// How often that has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.loads.loaded + self.loads.unloaded + self.loads.unanswered + self.retried
    }

    /// Probes what has come, and forgets what has gone; `coverage` says it then.
    pub(crate) fn look(&mut self, attachment: &mut Attachment, sites: &[Site], coverage: &mut Coverage) {
        let (has_loads, until_retry) = (attachment.has_loads(), attachment.until_retry());
        if until_retry.is_some_and(|until| until.is_zero()) {
            let (tried, done) = attachment.retry(&self.requests(sites));
            self.tried_again(tried, sites, coverage);
            self.tell_failure("trying again what was busy", done);
        }
        if has_loads {
            let (change, done) = attachment.follow_loads(&self.requests(sites));
            self.note(change, sites, coverage);
            self.tell_failure("probing what was loaded", done);
        }
    }

    fn requests<'a>(&self, sites: &'a [Site]) -> Vec<SiteRequest<'a>> {
        sites.iter().zip(&self.wanted).map(|(site, programs)| site.request(programs.clone())).collect()
    }

    fn tell_failure(&self, what: &str, done: Result<(), weir_probe::Error>) {
        match done {
            // Where the target has ended, that is seen elsewhere.
            Ok(()) | Err(weir_probe::Error::TargetGone { .. } | weir_probe::Error::Replaced { .. }) => {}
            Err(error) => note!(self.notices, Probes, "{}{what} failed: {error}", self.of),
        }
    }

    /// Places that were refused, and told so, for what threads did or what was mapped then.
    fn tried_again(&mut self, outcomes: Vec<(usize, Outcome)>, sites: &[Site], coverage: &mut Coverage) {
        if outcomes.is_empty() {
            return;
        }
        let stands = |(index, outcome): &(usize, Outcome)| {
            let was = self.outcomes[*index].as_ref().err()?;
            outcome.is_ok().then(|| sites[*index].label(was))
        };
        let standing: Vec<String> = outcomes.iter().filter_map(stands).collect();
        if let Some(first) = standing.first() {
            let more = match standing.len() {
                1 => String::new(),
                many => format!(" and {} more", many - 1),
            };
            note!(self.notices, Probes, "{}probed now, which was refused at first: {first}{more}", self.of);
        }
        self.retried += 1;
        self.take(outcomes, sites);
        *coverage = Coverage::of(sites, &self.outcomes, self.loads);
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
            note!(self.notices, Probes, "{}{what}", self.of);
        }
        if self.told == TOLD_MAX {
            note!(
                self.notices,
                Probes,
                "{}what is loaded and unloaded from here on is counted, and not told one by one",
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
                refused.push(format!("\n  {}: {refusal}", sites[index].label(refusal)));
            }
            self.outcomes[index] = outcome;
        }
        if !refused.is_empty() {
            let shown = if self.is_verbose { refused.len() } else { refused.len().min(3) };
            let more = match refused.len() - shown {
                0 => String::new(),
                more => format!("\n  and {more} more (-v names them)"),
            };
            let (count, what) = (refused.len(), stages::places(sites));
            let lines = refused[..shown].concat();
            note!(self.notices, Probes, "{}{count} {what} are not probed:{lines}{more}", self.of);
        }
    }
}
