//! A filter's program on weir's engines and in the kernel.

use weir_ebpf::Program;
use weir_interp::Environment;
use weir_pcap_filter::Facts;
use weir_rt::Context;
use weir_rt::local::{self, LocalProgram, PacketFields};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

/// A program that is ready to run.
pub(crate) struct Ready {
    verified: VerifiedProgram,
    segment: Segment,
    native: LocalProgram,
}

pub(crate) fn listing(program: &Program) -> String {
    let lines = (0..program.insns.len()).map(|at| weir_ebpf::asm::insn_text(&program.insns, at, &[]));
    lines.enumerate().map(|(at, line)| format!("{at}: {line}")).collect::<Vec<_>>().join("\n")
}

impl Ready {
    pub(crate) fn of(program: &Program) -> Result<Ready, String> {
        let verified = weir_verifier::verify(program, &[], &Limits::default());
        let verified = verified.map_err(|rejection| format!("{rejection}\n{}", listing(program)))?;
        let layout = SegmentLayout::plan(&[], local::possible_cpus()).expect("no maps fit");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a segment");
        let executable = weir_jit::compile(&verified, &local::site(segment.layout())).expect("compiles");
        let native = LocalProgram::load(&executable, &segment).expect("code fits");
        Ok(Ready { verified, segment, native })
    }

    pub(crate) fn native(&self, packet: &[u8], wire_bytes: u32) -> u32 {
        self.native.classify(packet, wire_bytes, PacketFields::NONE)
    }

    pub(crate) fn interpreted(&self, packet: &[u8], wire_bytes: u32) -> u32 {
        let environment = Environment { segment: &self.segment };
        let mut context = Context::classifier(&[], packet, wire_bytes);
        weir_interp::run(&self.verified, &environment, &mut context).expect("verified") as u32
    }

    /// Native, on a packet whose context says more.
    pub(crate) fn knowing(&self, packet: &[u8], wire_bytes: u32, facts: &Facts) -> u32 {
        let mut fields = PacketFields::default();
        for (name, value) in [
            ("pkt_type", facts.packet_type),
            ("ifindex", facts.ifindex),
            ("queue_mapping", facts.queue_mapping),
            ("hash", facts.hash),
        ] {
            fields.set(name, value.into());
        }
        self.native.classify(packet, wire_bytes, &fields)
    }
}
