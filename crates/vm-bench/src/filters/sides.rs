//! A chain on each side: hard-coded C, machine code, the threaded interpreter.
//!
//! Each runs a loop over events. What an event costs is its field's addresses, which every side reads anew for each event, and
//! the filter. weir's are called as a tracepoint would: the addresses of the fields that the filter reads are stored into slots
//! first (for machine code above the return address, as an argument by value has it), and storing them counts.

use std::ffi::CString;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use weir_interp::threaded::Threaded;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;

use super::shared::{Caller, Native, Shared};
use super::{Chain, FIELDS, build, value};

/// The sides, by their names in tables. The last is the first once more.
pub const SUBJECTS: [&str; 4] = ["weir", "weir-interp", "hard-coded", "A/A"];

/// A struct of fewer words would be passed in registers.
const SLOTS_MIN: usize = 3;

/// A chain, ready to run on each side.
pub struct Lane {
    pub chain: Chain,
    native: Native,
    caller: Caller,
    program: LocalProgram,
    threaded: Threaded<std::sync::Arc<weir_rt::segment::Segment>>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({})", self.chain.name)
    }
}

/// The event's texts, and every chain.
#[derive(Debug)]
pub struct Sides {
    pub lanes: Vec<Lane>,
    addresses: Vec<*const i8>,
    _texts: Vec<CString>,
}

impl Sides {
    /// Builds all of them; C is compiled in `folder`.
    pub fn of(chains: Vec<Chain>, folder: &Path) -> Result<Sides> {
        let shared = Shared::of(&source(&chains), folder)?;
        let texts: Vec<CString> = (0..FIELDS).map(value).map(CString::new).collect::<Result<_, _>>()?;
        let lane = |(index, chain): (usize, Chain)| {
            let (built, _) = build(&chain.text())?;
            let segment = std::sync::Arc::new(built.segment);
            let program = LocalProgram::load(&built.executable, &segment)?;
            let threaded = Threaded::of(&built.verified, segment);
            Ok(Lane {
                native: shared.native(&format!("native{index}"))?,
                caller: shared.caller(&format!("slots{}", slots(&chain)))?,
                program,
                threaded: threaded.ok_or_else(|| anyhow::anyhow!("no threaded form"))?,
                chain,
            })
        };
        let lanes = chains.into_iter().enumerate().map(lane).collect::<Result<Vec<_>>>()?;
        let addresses = texts.iter().map(|text| text.as_ptr()).collect();
        Ok(Sides { lanes, addresses, _texts: texts })
    }

    /// Filters so many events; says whether they were kept.
    pub fn run(&self, lane: &Lane, subject: &str, events: u64) -> Result<()> {
        let fields = self.addresses.as_ptr();
        let kept = match subject {
            // SAFETY: the addresses are those of texts, as many as the filter reads.
            "hard-coded" => unsafe { (lane.native)(events, fields) },
            "weir-interp" => self.interpreted(lane, events),
            // SAFETY: the same; the program is entered with its context above the return address, reads the slots alone that
            // it was given, and keeps all registers that C counts on.
            _ => unsafe { (lane.caller)(events, lane.program.address() as *const u8, fields) },
        };
        let expected = if lane.chain.answer { events } else { 0 };
        ensure!(kept == expected, "{}: {subject} keeps {kept} of {events} events", lane.chain.name);
        Ok(())
    }

    fn interpreted(&self, lane: &Lane, events: u64) -> u64 {
        let mut frame = Frame::default();
        let fields = lane.chain.fields().max(SLOTS_MIN);
        let mut kept = 0;
        for _ in 0..events {
            for (slot, address) in frame.regs.iter_mut().zip(&self.addresses[..fields]) {
                // SAFETY: both are ours; volatile, so that it is done for each event.
                unsafe { std::ptr::write_volatile(slot, std::ptr::read_volatile(address) as u64) };
            }
            // SAFETY: the slots that the program was verified for hold texts.
            kept += unsafe { lane.threaded.run_frame(&mut frame) };
        }
        kept
    }
}

fn slots(chain: &Chain) -> usize {
    chain.fields().max(SLOTS_MIN)
}

/// The hard-coded filters, and a caller for each number of slots.
fn source(chains: &[Chain]) -> String {
    let mut source = String::from("#include <string.h>\n");
    for (index, chain) in chains.iter().enumerate() {
        // SANITY: a string takes all that is written.
        write!(
            source,
            "static __attribute__((noinline)) unsigned long filter{index}(const char *const *field)\n\
             {{\n    return {};\n}}\n\
             unsigned long native{index}(unsigned long events, const char *const *field)\n\
             {{\n    unsigned long kept = 0;\n    while (events--) {{\n\
             \x20       kept += filter{index}(field);\n        __asm__ volatile(\"\" ::: \"memory\");\n    }}\n\
             \x20   return kept;\n}}\n",
            chain.c()
        )
        .expect("room");
    }
    for slots in SLOTS_MIN..=FIELDS {
        write!(
            source,
            "struct frame{slots} {{ const char *field[{slots}]; }};\n\
             unsigned long slots{slots}(unsigned long events, unsigned long (*run)(struct frame{slots}), const char *const *field)\n\
             {{\n    unsigned long kept = 0;\n    while (events--) {{\n\
             \x20       kept += run(*(const struct frame{slots} *)field);\n        __asm__ volatile(\"\" ::: \"memory\");\n    }}\n\
             \x20   return kept;\n}}\n"
        )
        .expect("room");
    }
    source
}
