//! Programs of weir's own at functions of the target: put in with the sites that were asked for, and not told among them.
//!
//! In: functions that the target maps, each planned, with a program. Out: the outcome of each. One that is probed besides has
//! its program behind those of the script; it goes when that site is withdrawn.

use weir_plan::Refusal;
use weir_plan::window::Window;
use weir_symbols::{Binary, Function};

use crate::attach::request::{Attach, Outcome, SiteRequest, When};
use crate::attach::state::Attachment;
use crate::limits::PROGRAMS_PER_SITE_MAX;
use crate::refusal::Error;

/// A function of the target, and the number of the executable that is to run at its entry.
pub(crate) struct OwnHook<'a> {
    pub(crate) binary: &'a Binary,
    pub(crate) function: &'a Function,
    pub(crate) window: &'a Result<Window, Refusal>,
    pub(crate) bias: u64,
    pub(crate) program: usize,
}

/// Where its patch stands, or why there is none.
pub(crate) type Hooked = Result<u64, Refusal>;

impl Attachment {
    /// Puts in `sites`, and `hooks` with them.
    pub(crate) fn put_in_with(
        &mut self,
        sites: &[SiteRequest],
        hooks: &[OwnHook],
    ) -> Result<(Vec<Outcome>, Vec<Hooked>), Error> {
        let asked = sites.len();
        let mut all = sites.to_vec();
        let places: Vec<Result<usize, Refusal>> = hooks.iter().map(|hook| join(&mut all, hook)).collect();
        let address =
            |hook: &OwnHook| hook.window.as_ref().ok().map(|window| window.address.wrapping_add(hook.bias));
        let addresses: Vec<Option<u64>> = hooks.iter().map(address).collect();
        // What the script probes too is its own site.
        let is_apart = |place: &Result<usize, Refusal>| place.as_ref().is_ok_and(|&place| place >= asked);
        let apart = places.iter().zip(&addresses).filter(|(place, _)| is_apart(place));
        self.own.extend(apart.filter_map(|(_, address)| *address));
        let mut outcomes = self.put_in(&all)?;
        let hooked = places.into_iter().zip(addresses).map(|(place, address)| {
            let patched = place.and_then(|place| outcomes[place].clone());
            let hooked = patched.map(|_| address.expect("what was patched has a window"));
            if let (Err(_), Some(address)) = (&hooked, address) {
                self.own.remove(&address);
            }
            hooked
        });
        let hooked = hooked.collect();
        outcomes.truncate(asked);
        Ok((outcomes, hooked))
    }
}

/// Adds a hook to `sites`, or its program to the site that is there already; which one.
fn join<'a>(sites: &mut Vec<SiteRequest<'a>>, hook: &OwnHook<'a>) -> Result<usize, Refusal> {
    let window = hook.window;
    let is_there = |site: &SiteRequest| match (site.window, window) {
        (Ok(one), Ok(other)) => {
            one.address == other.address && site.binary.identity() == hook.binary.identity()
        }
        _ => false,
    };
    let Some(at) = sites.iter().position(is_there) else {
        sites.push(request(hook.binary, hook.function, window, hook.program));
        return Ok(sites.len() - 1);
    };
    let programs = &mut sites[at].programs;
    if programs.len() >= PROGRAMS_PER_SITE_MAX {
        return Err(Refusal::TooManyPrograms { given: programs.len() + 1, max: PROGRAMS_PER_SITE_MAX });
    }
    programs.push(at_entry(hook.program));
    Ok(at)
}

/// The site of a function at whose entry a program of weir's own is to run.
pub(crate) fn request<'a>(
    binary: &'a Binary,
    function: &'a Function,
    window: &'a Result<Window, Refusal>,
    program: usize,
) -> SiteRequest<'a> {
    let programs = vec![at_entry(program)];
    SiteRequest { binary, function, window, called: None, semaphore: None, programs, returns: None }
}

fn at_entry(program: usize) -> Attach {
    Attach { executable: program, cookie: 0, when: When::Entry }
}
