//! A converted program on weir's engines: verified, then interpreted and compiled.

use weir_cbpf::{FarOffsets, Metadata, Program, Target, convert};
use weir_interp::Environment;
use weir_rt::Context;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

/// A program that is ready to run.
pub(crate) struct Ready {
    verified: VerifiedProgram,
    segment: Segment,
    native: LocalProgram,
}

pub(crate) fn converted(program: &Program, far_offsets: FarOffsets) -> weir_ebpf::Program {
    convert(program, &Target { name: "filter".into(), far_offsets }).expect("all of it has equivalents")
}

impl Ready {
    pub(crate) fn of(program: &Program, far_offsets: FarOffsets) -> Ready {
        let program = converted(program, far_offsets);
        let verified = weir_verifier::verify(&program, &[], &Limits::default());
        let verified = verified.unwrap_or_else(|rejection| {
            let lines = (0..program.insns.len()).map(|at| weir_ebpf::asm::insn_text(&program.insns, at, &[]));
            panic!("{rejection}\n{}", lines.collect::<Vec<_>>().join("\n"))
        });
        let layout = SegmentLayout::plan(&[], local::possible_cpus()).expect("no maps fit");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a segment");
        let executable = weir_jit::compile(&verified, &local::site(segment.layout())).expect("compiles");
        let native = LocalProgram::load(&executable, &segment).expect("code fits");
        Ready { verified, segment, native }
    }

    pub(crate) fn compiled(&self, mut context: Context) -> u32 {
        self.native.run(&mut context) as u32
    }

    /// What both engines say of the context that `make` makes.
    pub(crate) fn both(&self, make: impl Fn() -> Context) -> u32 {
        let environment = Environment { segment: &self.segment };
        let interpreted =
            weir_interp::run(&self.verified, &environment, &mut make()).expect("verified") as u32;
        assert_eq!(interpreted, self.compiled(make()));
        interpreted
    }
}

/// A packet from its link header on, with what is known of it.
pub(crate) fn context(packet: &[u8], wire_len: u32, metadata: &Metadata) -> Context {
    let mut context = Context::socket(&[], packet);
    let on_the_wire = |number: u32| u32::from((number as u16).to_be());
    for (name, value) in [
        ("len", wire_len),
        ("protocol", on_the_wire(metadata.protocol)),
        ("pkt_type", metadata.pkt_type),
        ("ifindex", metadata.ifindex),
        ("mark", metadata.mark),
        ("queue_mapping", metadata.queue),
        ("hash", metadata.rxhash),
        ("vlan_tci", metadata.vlan_tag),
        ("vlan_present", metadata.vlan_tag_present),
        ("vlan_proto", on_the_wire(metadata.vlan_tpid)),
    ] {
        context.set_field(name, value.into());
    }
    context
}
