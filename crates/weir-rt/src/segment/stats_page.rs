//! The stats page: what the controller says, once a second, of its probes in one process, for those who list them.
//!
//! In, on the controller's side: a [`StatsPage`]. Out, on a reader's: the same, from bytes copied out of the process
//! ([`parse`]). A sequence word is odd while it is being written, and another one afterwards, so that a reader who finds
//! the same even word before and after copying has a whole one.
//!
//! The bytes are hostile to a reader, since the target can write them: lengths are bounded, names lose what could steer a
//! terminal, and numbers are just numbers.

use std::sync::atomic::{Ordering, fence};

use super::Segment;
use crate::abi::{STATS_PAGE_HEAD_BYTES, STATS_PAGE_LINE_BYTES, line, stats_page};
use crate::foreign::printable;
use crate::limits::STATS_PAGE_NAME_BYTES_MAX;

/// What stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// What the probes of one process cost, as of one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatsPage {
    /// CLOCK_MONOTONIC, in ns.
    pub written_ns: u64,
    /// CPU time that the process uses, in ns per second, probes included.
    pub cpu_ns_per_s: Option<u64>,
    /// Records of the whole run that found the ring full.
    pub records_lost: u64,
    pub lines: Vec<StatsPageLine>,
}

/// One probe: a clause of the script, at all its places in the process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatsPageLine {
    /// As the script names it; of longer ones the end.
    pub probe: String,
    /// Thousandths of hits per second, whether they ran or not.
    pub millihits_per_s: Option<u64>,
    /// Of a hit that runs.
    pub ps_per_hit: Option<u64>,
    /// CPU time in ns per second.
    pub cost_ns_per_s: Option<u64>,
    /// Hits that ran since the process was attached to: counted, and estimated where nothing counted.
    pub hits: u64,
    pub hits_about: u64,
    /// Hits that did not run, to keep to a budget: counted, and estimated.
    pub missed: u64,
    pub missed_about: u64,
    /// Places that run every hit, that run one of some, that run none, and that were taken out.
    pub armed: u32,
    pub sampled: u32,
    pub shut: u32,
    pub withdrawn: u32,
    /// Of sampled places, one of so many: the fewest that any runs.
    pub one_in: u32,
}

impl Segment {
    /// Puts up another stats page in place of the last one. Lines that there is no room for are left out.
    pub fn publish(&self, stats_page: &StatsPage) {
        let layout = self.layout();
        if layout.stats_page_lines == 0 {
            return;
        }
        let room = layout.stats_page_lines as usize;
        let count = stats_page.lines.len().min(room);
        let word = |at: usize| self.mapping().word(layout.stats_page_offset + at as u64);
        // The target can write here too, and then misleads whoever reads about itself.
        let odd = word(stats_page::SEQUENCE).load(Ordering::Relaxed) | 1;
        word(stats_page::SEQUENCE).store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        let put = |at: usize, value: u64| word(at).store(value, Ordering::Relaxed);
        put(stats_page::WRITTEN_NS, stats_page.written_ns);
        put(stats_page::CPU, stats_page.cpu_ns_per_s.unwrap_or(UNKNOWN));
        put(stats_page::RECORDS_LOST, stats_page.records_lost);
        put(stats_page::LINES, count as u64);
        for (n, line) in stats_page.lines.iter().take(count).enumerate() {
            let at = STATS_PAGE_HEAD_BYTES + n * STATS_PAGE_LINE_BYTES;
            for (k, word) in line.to_bytes().chunks_exact(8).enumerate() {
                put(at + 8 * k, u64::from_le_bytes(word.try_into().expect("eight bytes")));
            }
        }
        // 0 is what a stats page that was never put up has.
        word(stats_page::SEQUENCE).store(odd.wrapping_add(1).max(2), Ordering::Release);
    }
}

impl StatsPageLine {
    fn to_bytes(&self) -> [u8; STATS_PAGE_LINE_BYTES] {
        let mut bytes = [0; STATS_PAGE_LINE_BYTES];
        let name = shortened(&self.probe);
        let halves = [
            (line::NAME_BYTES, name.len() as u32),
            (line::ONE_IN, self.one_in),
            (line::ARMED, self.armed),
            (line::SAMPLED, self.sampled),
            (line::SHUT, self.shut),
            (line::WITHDRAWN, self.withdrawn),
        ];
        for (at, half) in halves {
            bytes[at..at + 4].copy_from_slice(&half.to_le_bytes());
        }
        let words = [
            (line::RATE, self.millihits_per_s.unwrap_or(UNKNOWN)),
            (line::TIME, self.ps_per_hit.unwrap_or(UNKNOWN)),
            (line::COST, self.cost_ns_per_s.unwrap_or(UNKNOWN)),
            (line::HITS, self.hits),
            (line::HITS_ABOUT, self.hits_about),
            (line::MISSED, self.missed),
            (line::MISSED_ABOUT, self.missed_about),
        ];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[line::NAME..line::NAME + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> StatsPageLine {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let word = |at: usize| word(bytes, at);
        let known = |at: usize| Some(word(at)).filter(|word| *word != UNKNOWN);
        let name_bytes = (half(line::NAME_BYTES) as usize).min(STATS_PAGE_NAME_BYTES_MAX);
        StatsPageLine {
            probe: printable(&bytes[line::NAME..line::NAME + name_bytes]),
            millihits_per_s: known(line::RATE),
            ps_per_hit: known(line::TIME),
            cost_ns_per_s: known(line::COST),
            hits: word(line::HITS),
            hits_about: word(line::HITS_ABOUT),
            missed: word(line::MISSED),
            missed_about: word(line::MISSED_ABOUT),
            armed: half(line::ARMED),
            sampled: half(line::SAMPLED),
            shut: half(line::SHUT),
            withdrawn: half(line::WITHDRAWN),
            one_in: half(line::ONE_IN),
        }
    }
}

/// The stats page in `bytes`, which hold as many lines as fit; none where none was put up yet, or one is being written.
pub(crate) fn parse(bytes: &[u8]) -> Option<StatsPage> {
    let (head, lines) = bytes.split_at_checked(STATS_PAGE_HEAD_BYTES)?;
    let sequence = word(head, stats_page::SEQUENCE);
    if sequence == 0 || sequence % 2 == 1 {
        return None;
    }
    let count = usize::try_from(word(head, stats_page::LINES)).unwrap_or(usize::MAX);
    Some(StatsPage {
        written_ns: word(head, stats_page::WRITTEN_NS),
        cpu_ns_per_s: Some(word(head, stats_page::CPU)).filter(|cpu| *cpu != UNKNOWN),
        records_lost: word(head, stats_page::RECORDS_LOST),
        lines: lines.chunks_exact(STATS_PAGE_LINE_BYTES).take(count).map(StatsPageLine::of_bytes).collect(),
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The end of a name says most: the function.
fn shortened(name: &str) -> String {
    if name.len() <= STATS_PAGE_NAME_BYTES_MAX {
        return name.to_owned();
    }
    let mark = "…";
    let mut from = name.len() - (STATS_PAGE_NAME_BYTES_MAX - mark.len());
    while !name.is_char_boundary(from) {
        from += 1;
    }
    format!("{mark}{}", &name[from..])
}
