//! What an attachment is asked for, and what it answers for each site.

use weir_plan::Refusal;
use weir_plan::returns::Returns;
use weir_plan::window::Window;
use weir_symbols::{Binary, Function, LinkAddr};
pub use weir_trampoline::program::{Attach, When};

/// A function to probe, and the programs to run there in order.
#[derive(Clone, Debug)]
pub struct SiteRequest<'a> {
    pub binary: &'a Binary,
    pub function: &'a Function,
    /// As [`plan_sites`](crate::plan_sites) answered for this function.
    pub window: &'a Result<Window, Refusal>,
    /// At a place that calls a list of functions ([`Place::Called`](weir_plan::Place::Called)): what is called in addition.
    pub called: Option<CalledFunction<'a>>,
    /// A word that counts tracers, raised while the site is patched.
    pub semaphore: Option<LinkAddr>,
    /// At most [`crate::limits::PROGRAMS_PER_SITE_MAX`]; they run in this order.
    pub programs: Vec<Attach>,
    /// As [`plan_returns`](crate::plan_returns) answered for this function; `None` where no program wants the return.
    pub returns: Option<Result<Returns, Refusal>>,
}

/// A function that is called in addition at a place that calls a list of them.
#[derive(Clone, Copy, Debug)]
pub struct CalledFunction<'a> {
    pub binary: &'a Binary,
    pub function: LinkAddr,
    /// As [`Called::words`](weir_plan::window::Called::words).
    pub words: u8,
    /// Its file is never unloaded.
    pub stays: bool,
    /// The word of the place's file that says where the structure is that the place is in, when its process has relocated it.
    pub listed: LinkAddr,
}

impl SiteRequest<'_> {
    pub(crate) fn wants_return(&self) -> bool {
        matches!(self.returns, Some(Ok(_))) && self.programs.iter().any(|program| program.when.wants_return())
    }

    /// Some program runs where returns cannot be caught too.
    pub(crate) fn wants_entry(&self) -> bool {
        self.programs.iter().any(|program| matches!(program.when, When::Entry | When::EntryAndReturn))
    }
}

/// A site that was patched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patched {
    /// How.
    pub technique: String,
    /// Why its returns are not caught, where a program wants that: those for the return alone and sessions do not run.
    pub returns_refused: Option<Refusal>,
    /// Its number, by which its hits are metered and slowed ([`crate::attach::rails`]).
    pub site: usize,
}

/// What became of a site.
pub type Outcome = Result<Patched, Refusal>;

/// What a weir that is gone had left in a process, and was put back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenOver {
    pub controller_pid: u32,
    /// Functions whose text was put back.
    pub restored: usize,
}
