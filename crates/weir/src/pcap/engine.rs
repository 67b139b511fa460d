//! eBPF programs of packet filters → what runs them: verified, then interpreted or native.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use weir_cbpf::{Machine, Target, text};
use weir_ebpf::elf::ObjectFile;
use weir_ebpf::{Object, Program, ProgramKind};
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_pcap_filter::Facts;
use weir_rt::Context;
use weir_rt::local::{self, LocalProgram, PacketFields};
use weir_rt::segment::Segment;
use weir_run::object;
use weir_verifier::{Limits, VerifiedProgram};

use crate::args::filter::Engine;
use crate::failure::Failure;
use crate::filter::segment;
use crate::pcap::refused;

/// A classifier that is ready to run.
pub(crate) struct Ready {
    engine: Loaded,
    asks_context: bool,
}

enum Loaded {
    Native(LocalProgram),
    Threaded(Threaded<Arc<Segment>>),
    /// What the threaded interpreter has not.
    Checked(Box<VerifiedProgram>, Arc<Segment>),
}

impl Ready {
    /// `asks_context`: it reads fields of the context beside the packet and its length.
    pub(crate) fn of(program: Program, asks_context: bool, engine: Engine) -> Result<Ready, Failure> {
        let (file, verified) = verified(program)?;
        let segment = Arc::new(segment(&file)?);
        let engine = match engine {
            Engine::Interp => match Threaded::of(&verified, segment.clone()).filter(|_| !asks_context) {
                Some(threaded) => Loaded::Threaded(threaded),
                None => Loaded::Checked(Box::new(verified), segment),
            },
            Engine::Jit => {
                let executable = weir_jit::compile(&verified, &local::site(segment.layout()));
                let executable = executable.map_err(refused)?;
                let program = LocalProgram::load(&executable, &segment).context("loading machine code");
                Loaded::Native(program.map_err(Failure::Machine)?)
            }
        };
        Ok(Ready { engine, asks_context })
    }

    /// [`Ready::run`] needs what the file says of packets.
    pub(crate) fn asks_context(&self) -> bool {
        self.asks_context
    }

    /// What it returns for a packet, of which `bytes` were captured and `wire_bytes` were on the wire, and `facts` are known.
    pub(crate) fn run(&self, bytes: &[u8], wire_bytes: u32, facts: Option<Facts>) -> Result<u32, Failure> {
        match &self.engine {
            Loaded::Native(program) => match facts {
                None => Ok(program.classify(bytes, wire_bytes, PacketFields::NONE)),
                Some(facts) => {
                    let mut fields = PacketFields::default();
                    said(facts).into_iter().for_each(|(name, value)| fields.set(name, value));
                    Ok(program.classify(bytes, wire_bytes, &fields))
                }
            },
            // It reads no other fields.
            Loaded::Threaded(threaded) => Ok(threaded.classify(bytes, wire_bytes)),
            Loaded::Checked(verified, segment) => {
                let mut context = Context::classifier(&[], bytes, wire_bytes);
                let said = facts.into_iter().flat_map(said);
                said.for_each(|(name, value)| context.set_field(name, value));
                let run = weir_interp::run(verified, &Environment { segment }, &mut context);
                run.map(|r0| r0 as u32).map_err(|fault| Failure::Bug(anyhow!("{fault}")))
            }
        }
    }
}

/// Fields of a classifier's context, by their names.
fn said(facts: Facts) -> [(&'static str, u64); 4] {
    [
        ("pkt_type", facts.packet_type.into()),
        ("queue_mapping", facts.queue_mapping.into()),
        ("ifindex", facts.ifindex.into()),
        ("hash", facts.hash.into()),
    ]
}

/// The listing of a program's machine code.
pub(super) fn machine_code(program: Program) -> Result<String, Failure> {
    let (file, verified) = verified(program)?;
    let executable = weir_jit::compile(&verified, &local::site(segment(&file)?.layout())).map_err(refused)?;
    Ok(weir_jit::disassemble(&executable, &file.object))
}

fn verified(program: Program) -> Result<(ObjectFile, VerifiedProgram), Failure> {
    let file = ObjectFile::of(Object { maps: Vec::new(), programs: vec![program] });
    let verified = object::verify_within(&file, 0, &Limits::default())?;
    Ok((file, verified))
}

/// Classic BPF, as text or as bytes, checked and converted. It is run as a classifier, which sees the same bytes of a packet as
/// libpcap's interpreter does.
pub(super) fn of_classic(bytes: &[u8], name: &str) -> Result<Program, Failure> {
    // Every instruction has a zero byte as the upper half of its code; text has none.
    let insns = match str::from_utf8(bytes) {
        Ok(words) if !bytes.contains(&0) => text::parse(words, text::guess(words)).map_err(refused)?,
        _ => text::from_bytes(bytes).map_err(refused)?,
    };
    let program = weir_cbpf::check(&insns, Machine::Userland).map_err(refused)?;
    let target = Target { name: name.to_owned(), ..Target::default() };
    let converted = weir_cbpf::convert(&program, &target).map_err(refused)?;
    Ok(Program { kind: ProgramKind::Classifier, ..converted })
}
