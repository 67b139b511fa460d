//! Packet filters: text → machine code, and what it says of packets.

use weir_ebpf::Program;
use weir_pcap_filter::{LinkType, Mode, Options, SNAPLEN_DEFAULT};
use weir_pcap_names::SystemNames;
use weir_rt::limits::LENT_BYTES_MAX;
use weir_rt::local::{self, LocalProgram, PacketFields};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_source::Diagnostic;
use weir_verifier::Limits;

use crate::error::{E2BIG, EACCES, EINVAL, Error, Result};
use crate::object::{executable, of_loading};

/// A compiled expression. Its names do not show in C: `struct weir_pcap_filter`.
#[derive(Debug)]
pub struct Filter {
    source: weir_pcap_filter::Filter,
    program: LocalProgram,
}

/// What is asked for, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) link_type: i32,
    pub(crate) snaplen: u32,
    pub(crate) netmask: u32,
    pub(crate) mode: i32,
}

impl Filter {
    pub(crate) fn compile(expression: &str, asked: Asked) -> Result<Filter> {
        let link_type = u16::try_from(asked.link_type)
            .map_err(|_| Error::new(EINVAL, format!("{} is no link type (a DLT_ value)", asked.link_type)))?;
        let mode = match asked.mode {
            0 => Mode::Compat,
            1 => Mode::Scoped,
            other => return Err(Error::new(EINVAL, format!("{other} is no mode (enum weir_pcap_mode)"))),
        };
        let options = Options {
            link_type: LinkType(link_type),
            snaplen: if asked.snaplen == 0 { SNAPLEN_DEFAULT } else { asked.snaplen },
            netmask: (asked.netmask != 0).then_some(asked.netmask),
            mode,
        };
        let source = weir_pcap_filter::compile(expression, &options, &SystemNames::default());
        let source = source.map_err(|faults| Error::new(EINVAL, words(&faults)))?;
        let program = source.program("filter").map_err(|error| Error::new(E2BIG, error.to_string()))?;
        Ok(Filter { program: native(&program)?, source })
    }

    /// Bytes of the packet to keep. Of one that is too long to be lent to a program, the first bytes are looked at.
    pub(crate) fn matches(&self, packet: &[u8], length: u32) -> u32 {
        let lent = packet.len().min(LENT_BYTES_MAX as usize);
        self.program.classify(&packet[..lent], length, PacketFields::NONE)
    }

    pub(crate) fn classic(&self) -> Result<Vec<[u8; 8]>> {
        let insns = self.source.classic().map_err(|error| Error::new(E2BIG, error.to_string()))?;
        Ok(insns.iter().map(|insn| insn.to_bytes()).collect())
    }
}

fn native(program: &Program) -> Result<LocalProgram> {
    let verified = weir_verifier::verify(program, &[], &Limits::default());
    let verified = verified.map_err(|rejection| Error::new(EACCES, rejection.to_string()))?;
    let layout = SegmentLayout::plan(&[], local::possible_cpus());
    let layout = layout.map_err(|error| Error::new(E2BIG, error.to_string()))?;
    let segment = Segment::create_local(layout, &Identity::default()).map_err(|error| of_loading(&error))?;
    let executable = executable(&verified, &segment)?;
    LocalProgram::load(&executable, &segment).map_err(|error| of_loading(&error))
}

fn words(faults: &[Diagnostic]) -> String {
    let word = |fault: &Diagnostic| {
        let hint = fault.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("at byte {}: {}{hint}", fault.span.start, fault.message)
    };
    faults.iter().map(word).collect::<Vec<_>>().join("\n")
}
