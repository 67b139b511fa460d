//! Estimates are held to what benches have measured.

use std::fs;

use crate::stages;
use weir_policy::expected::{BOTH_NS, CALLED_NS, ENTRY_NS, KERNEL_ENTRY_NS, KERNEL_RETURN_NS, UPDATE_NS, of};
use weir_source::SourceFile;

/// What a bench has measured.
fn measured(bench: &str, subject: &str, case: &str) -> f64 {
    let path = format!("{}/../../docs/bench/{bench}.json", env!("CARGO_MANIFEST_DIR"));
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    json["figures"][subject][case]["median"].as_f64().unwrap_or_else(|| panic!("{bench}: {subject}: {case}"))
}

#[test]
fn figures_are_those_of_the_benches() {
    for (ns, subject, case) in [
        (ENTRY_NS, "weir", "empty entry"),
        (BOTH_NS, "weir", "entry and return, empty"),
        (KERNEL_ENTRY_NS, "uprobe", "empty entry"),
        (KERNEL_RETURN_NS, "uretprobe", "entry and return, empty"),
    ] {
        let measured = measured("probe", subject, case);
        assert!((ns / measured - 1.0).abs() < 0.02, "{subject}: {case}: {ns}, {measured}");
    }
    let record = |subject| measured("record", subject, "int and long, 1 thread");
    let called = ENTRY_NS + record("weir on lttng's") - record("weir");
    assert!((CALLED_NS / called - 1.0).abs() < 0.02, "{called}");
    let update = measured("vm", "weir", "op_hash_update");
    assert!((UPDATE_NS / update - 1.0).abs() < 0.02, "{update}");
}

#[track_caller]
fn check(body: &str, place_ns: f64, bench: &str, case: &str) {
    let script = format!("uprobe:libc:malloc {{ {body} }}");
    let source = SourceFile { name: "test".into(), text: script };
    let world = weir_world::binaries(None).unwrap();
    let module = stages::front(&source, &weir_script::Options::default(), &world, &mut |_| ()).unwrap();
    let options = weir_codegen::Options { counts_hits: false, ..weir_codegen::Options::default() };
    let (compiled, verified) =
        stages::back(&module, &options, None, &weir_codegen::Part::WHOLE, &source).unwrap();
    let estimate = place_ns + of(&verified[0], &compiled.object.maps);
    let measured = measured(bench, "weir", case);
    let ratio = estimate / measured;
    assert!((1.0 / 3.0..3.0).contains(&ratio), "{body}: estimated {estimate}, measured {measured}");
}

#[test]
fn estimates_of_scripts_are_near_what_was_measured() {
    check("", ENTRY_NS, "probe", "empty entry");
    check("@ = count();", ENTRY_NS, "probe", "count()");
    check("@[arg0] = count();", ENTRY_NS, "probe", "@[arg0] = count()");
    check("@[ustack(5)] = count();", ENTRY_NS, "script", "ns a hit: stack");
    check("@[comm, str(arg1)] = hist(arg0);", ENTRY_NS, "script", "ns a hit: strings");
    check("printf(\"%d %s\\n\", pid, \"text\");", ENTRY_NS, "script", "ns a hit: printf");
    check("@ = **((uint64 *)arg0 + **(uint64 *)arg1);", ENTRY_NS, "script", "ns a hit: chain");
}
