//! An expression on each side that runs it.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use testkit::kernel::{self, Loaded};
use testkit::libpcap::{Libpcap, NETMASK_UNKNOWN, RawInsn};
use weir_cbpf::{Insn, Machine, Target};
use weir_ebpf::{Object, Program, ProgramKind};
use weir_interp::threaded::Threaded;
use weir_kernel::Input;
use weir_pcap_filter::SNAPLEN_DEFAULT;
use weir_rt::local::{LocalProgram, PacketFields};
use weir_rt::segment::Segment;

/// One filter on one side.
pub enum Side {
    /// weir's machine code.
    Weir(LocalProgram),
    /// weir's interpreter, on the same program.
    Interpreter(Threaded<Arc<Segment>>),
    /// libpcap's program in libpcap's interpreter.
    Libpcap(&'static Libpcap, Vec<RawInsn>),
    /// A program in the kernel: its name as a side.
    Kernel(&'static str, Loaded),
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Side {
    pub fn name(&self) -> &'static str {
        match self {
            Side::Weir(_) => "weir",
            Side::Interpreter(_) => "weir-interp",
            Side::Libpcap(..) => "libpcap",
            Side::Kernel(name, _) => name,
        }
    }

    /// Runs it in this process, so that packets of a trace can follow each other.
    pub fn is_here(&self) -> bool {
        !matches!(self, Side::Kernel(..))
    }

    /// What it gives for a packet.
    pub fn once(&mut self, packet: &[u8]) -> Result<u32> {
        self.repeat(packet, 1)
    }

    /// Runs on the same packet `times` times; what it gave last.
    pub fn repeat(&mut self, packet: &[u8], times: u32) -> Result<u32> {
        let wire_bytes = packet.len() as u32;
        let again = |run: &mut dyn FnMut() -> u32| (0..times).fold(0, |_, _| run());
        Ok(match self {
            Side::Weir(program) => {
                let mut last = 0;
                for _ in 0..times {
                    last = program.classify(std::hint::black_box(packet), wire_bytes, PacketFields::NONE);
                }
                last
            }
            Side::Interpreter(program) => again(&mut || program.classify(packet, wire_bytes)),
            Side::Libpcap(pcap, program) => {
                let program = pcap.valid(program);
                again(&mut || program.filter(packet, wire_bytes))
            }
            Side::Kernel(_, loaded) => {
                let input = Input { bytes: packet, ..Input::default() };
                loaded.programs[0].run(input, times)?.r0 as u32
            }
        })
    }

    /// Runs on each packet once, in order; the sum of what it gave. For sides that are [here](Side::is_here).
    pub fn pass(&mut self, packets: &[Vec<u8>]) -> Result<u64> {
        let mut sum = 0;
        match self {
            Side::Weir(program) => {
                for packet in packets {
                    sum += u64::from(program.classify(packet, packet.len() as u32, PacketFields::NONE));
                }
            }
            Side::Libpcap(pcap, program) => {
                let program = pcap.valid(program);
                for packet in packets {
                    sum += u64::from(program.filter(packet, packet.len() as u32));
                }
            }
            _ => {
                for packet in packets {
                    sum += u64::from(self.once(packet)?);
                }
            }
        }
        Ok(sum)
    }
}

/// A filter on all sides, weir's machine code first, and what has no place there.
#[derive(Debug)]
pub struct Sides {
    pub all: Vec<Side>,
    /// Sides, with the reason.
    pub missing: Vec<(&'static str, String)>,
}

impl Sides {
    /// Of an expression.
    pub fn of(text: &str) -> Result<Sides> {
        let ours = super::weirs(text)?;
        let mut sides = Sides { all: vec![Side::Weir(super::native(&ours)?)], missing: Vec::new() };
        let segment = Arc::new(super::segment()?);
        match Threaded::of(&super::verified(&ours)?, segment) {
            Some(threaded) => sides.all.push(Side::Interpreter(threaded)),
            None => {
                sides.missing.push(("weir-interp", "the threaded interpreter lacks an instruction".into()))
            }
        }
        let pcap = super::libpcap()?;
        let theirs = pcap.compile(super::ETHERNET, SNAPLEN_DEFAULT, text, true, NETMASK_UNKNOWN);
        let theirs = theirs.map_err(|error| anyhow!("libpcap refuses {text:?}: {error}"))?;
        sides.add("kernel", in_kernel("kernel", ours));
        sides.add("kernel-cbpf", converted(&theirs).and_then(|program| in_kernel("kernel-cbpf", program)));
        sides.all.push(Side::Libpcap(pcap, theirs));
        Ok(sides)
    }

    fn add(&mut self, name: &'static str, side: Result<Side>) {
        match side {
            Ok(side) => self.all.push(side),
            Err(error) => self.missing.push((name, format!("{error:#}"))),
        }
    }
}

fn in_kernel(name: &'static str, program: Program) -> Result<Side> {
    let object = Object { maps: Vec::new(), programs: vec![program] };
    Ok(Side::Kernel(name, kernel::load(&object)?))
}

/// libpcap's program in eBPF, instruction by instruction, as the kernel does it for sockets.
fn converted(program: &[RawInsn]) -> Result<Program> {
    let insns: Vec<Insn> = program
        .iter()
        .map(|RawInsn { code, jt, jf, k }| Insn { code: *code, jt: *jt, jf: *jf, k: *k })
        .collect();
    let checked = weir_cbpf::check(&insns, Machine::Userland).context("libpcap's program")?;
    let program = weir_cbpf::convert(&checked, &Target { name: "filter".into(), ..Target::default() })?;
    Ok(Program { kind: ProgramKind::Classifier, ..program })
}
