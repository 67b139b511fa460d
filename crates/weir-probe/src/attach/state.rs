//! What is known of one attachment: the data, part by part. What is done with a part is in the file of its subject.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use weir_plan::Refusal;
use weir_rt::Executable;
use weir_rt::segment::{Filter, Segment};
use weir_symbols::FileIdentity;
use weir_trampoline::island::{Place, PlannedSite, Stubs};

use crate::attach::notifier::LoadNotifier;
use crate::attach::pending::ReturnPoints;
use crate::attach::request::Outcome;
use crate::attach::undo::Undo;
use crate::process::target::Target;

/// Probes in a live process. Dropped, it restores the text.
#[derive(Debug)]
pub struct Attachment {
    pub(crate) target: Target,
    /// The target's own segment, and where it is there.
    pub(crate) control: Arc<Segment>,
    pub(super) control_address: u64,
    /// What it shares with the other targets of the session; code in it means these.
    pub(super) maps: Arc<Segment>,
    pub(super) maps_address: u64,
    pub(crate) undo: Undo,
    pub(super) outcomes: Vec<Outcome>,
    /// Where return addresses are replaced, if any are; and when it was swept last, with how many returns had
    /// found no record.
    pub(super) stubs: Option<Stubs>,
    pub(super) swept: Option<(u64, Instant)>,
    /// Functions that answer unwinders, which returns cannot be probed without.
    pub(super) hooks: usize,
    pub(super) is_detached: bool,
    pub(crate) consumers: Consumers,
    pub(super) loads: Loads,
    pub(super) filters: Filters,
    pub(super) retries: Retries,
    pub(super) calls: Calls,
    /// Addresses of patches that are for weir itself.
    pub(super) own: BTreeSet<u64>,
    /// Of those, where memory is watched over.
    pub(super) guards: BTreeSet<u64>,
    pub(super) watch: Watch,
    pub(super) text: TextWatch,
    /// What signal handlers return to, where a program waits and must not in one.
    pub(super) restorers: [u64; 2],
    /// Forked children wait to be probed.
    pub(super) children_wait: bool,
}

/// What stands in the target, and for whom: see [`crate::attach::consumers`].
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    pub(crate) executables: Vec<Executable>,
    pub(crate) sites: Vec<Standing>,
    /// Mapped, those that nothing leads to any more among them.
    pub(crate) islands: Vec<Place>,
    /// Of those, and of outposts, what jumps may lead to that no site is known by yet; for good where that went wrong.
    pub(super) settling: Vec<Range<u64>>,
    pub(super) outposts: Vec<Range<u64>>,
    /// Of the journal, undone.
    pub(crate) spare_entries: Vec<u32>,
    pub(crate) numbers: Numbers,
    /// Whose sites are being put in.
    pub(super) current: u32,
    pub(super) last: u32,
    /// Holes and outposts' jumps of sites that are gone, which threads come back to from signal handlers: they lead to
    /// trampolines still.
    pub(super) awaited: HashSet<u64>,
    /// Trampolines of sites that are gone, and their landings, which another weir's jumps lead to still.
    pub(super) covered: Vec<u64>,
    /// Of all trampolines that ever were.
    pub(crate) return_points: ReturnPoints,
}

/// Numbers of sites, by which their meters are found.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(super) next: usize,
    pub(super) free: Vec<usize>,
}

/// A patched site.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) planned: PlannedSite,
    /// Address of its gate.
    pub(crate) gate: u64,
    /// How its hits run.
    pub(crate) mode: Mode,
    /// Of each of its programs.
    pub(super) owners: Vec<u32>,
    /// Where its trampoline begins.
    pub(super) entry: u64,
    /// Where the jump of a punned site leads first.
    pub(super) landing: Option<u64>,
    pub(super) entries: Vec<u32>,
    pub(crate) semaphore: Option<u64>,
    /// It calls a list, and not weir's.
    pub(super) is_lost: bool,
}

/// How the hits of a site run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Each, as fast as it can; what counts them are its programs alone.
    #[default]
    Armed,
    /// Each; counted, and the next [`crate::limits::TIMED_HITS`] timed.
    Metered,
    /// One of so many (at least two; rounded up to a power of two, at most [`crate::limits::ONE_IN_MAX`]).
    Sampled { one_in: u32 },
    /// None.
    Shut,
}

/// Libraries that come and go: see [`crate::attach::loads`].
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// Address of the patch at `r_brk`.
    pub(super) hook: Option<u64>,
    /// Why there is none, where it was wanted.
    pub(super) refused: Option<Refusal>,
    pub(super) copies: Vec<MappedFile>,
    /// The last announcement that was answered; none before the first look, which is at what came before the hook stood.
    pub(super) answered: Option<u32>,
    /// How many went on unanswered so far: told, and when the last look began.
    pub(super) late: u32,
    pub(super) late_at_look: u32,
    pub(super) looked: Option<Instant>,
    /// Other processes are worked on.
    pub(super) is_busy_elsewhere: bool,
    /// Readable when there is something to look at; none where there is no hook, or no thread for it.
    pub(super) notifier: Option<LoadNotifier>,
}

/// One mapping of a file that has sites.
#[derive(Clone, Debug)]
pub(super) struct MappedFile {
    pub(super) file: FileIdentity,
    pub(super) bias: u64,
    /// Where its code is.
    pub(super) text: Range<u64>,
    pub(super) path: String,
    /// Sites that are not probed in it for a reason that may pass ([`Refusal::may_pass`]), by index: it may have been half
    /// mapped, or its patches mapped over. They are tried again at each look.
    pub(super) missing: BTreeSet<usize>,
}

/// System call filters: see [`crate::attach::filters`].
#[derive(Debug, Default)]
pub(crate) struct Filters {
    pub(super) watched: Option<Watched>,
    /// No function was hooked; or why one was not.
    pub(super) unseen: Option<Refusal>,
    pub(super) looked: Option<Instant>,
    /// Threads passed over in the last look, where there are many.
    pub(super) passed: usize,
    pub(super) told: Option<Filter>,
}

/// What of seccomp matters to code in the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    /// All: it makes system calls.
    Filters,
    /// It reads the time stamp counter.
    Strict,
}

/// Places that call lists of functions: see [`crate::attach::calls`].
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(super) looked: Option<Instant>,
    /// Some were patched, or were to be.
    pub(super) has_places: bool,
    /// The function that registers such places announces that.
    pub(super) is_hooked: bool,
    /// Why it does not.
    pub(super) refused: Option<Refusal>,
}

/// Sites that are to be tried again: see [`crate::attach::retry`].
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// Sites, by index.
    pub(super) waiting: BTreeSet<usize>,
    pub(super) tried: u32,
    pub(super) is_trying: bool,
    pub(super) due: Option<Instant>,
}

/// Reads of memory without a system call: see [`crate::attach::reads`].
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) stage: Stage,
    /// Why there is no table at this moment, where that may pass.
    pub(super) passing: Option<String>,
    /// Not before then is there another table.
    pub(super) next: Option<Instant>,
    pub(super) missed: u64,
    pub(super) tables: u64,
}

/// How far the process is prepared for them.
#[derive(Debug, Default)]
pub(super) enum Stage {
    #[default]
    Unplanned,
    /// The hooks stand.
    Hooked {
        /// Addresses at which a thread may be on its way through a call that was not noted.
        passages: Vec<Range<u64>>,
        tries: u32,
    },
    Watching,
    Unwanted,
    Off(String),
}

/// Whether the probes are still in the text: see [`crate::attach::vanished`].
#[derive(Debug, Default)]
pub(crate) struct TextWatch {
    pub(super) looked: Option<Instant>,
    /// When the pages began to have their turns, and the time before that.
    pub(super) round: Option<Instant>,
    pub(super) before: Option<Instant>,
    /// Those that have not had theirs: the greatest address first.
    pub(super) left: Vec<Probe>,
    /// Those that were gone at the last look. A library that comes again where it was is not patched yet, and weir may know of it a moment later.
    pub(super) suspects: Vec<Probe>,
    /// Since when they may be gone.
    pub(super) since: Option<Instant>,
    pub(super) gone: BTreeSet<u64>,
}

/// A patch, and what was there before.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) address: u64,
    pub(super) old: Vec<u8>,
}
