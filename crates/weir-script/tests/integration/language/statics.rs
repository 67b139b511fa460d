//! Clauses at static probes: what they become, and what is refused.

use weir_ir::{Module, Trigger};

use crate::language::compile;

fn module(text: &str) -> Module {
    let (mut module, _) = compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:#?}"));
    weir_ir::pass::optimise(&mut module);
    weir_ir::check::check(&module).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let printed = weir_ir::text::print(&module);
    assert_eq!(weir_ir::text::parse(&printed).as_ref(), Ok(&module), "{printed}");
    module
}

/// The addresses that each function of the script's module runs at.
#[track_caller]
fn functions(text: &str, expected: &[&[u64]]) {
    let addresses = |trigger: &Trigger| match trigger {
        Trigger::Usdt { sites } => sites.iter().map(|site| site.address).collect(),
        _ => Vec::new(),
    };
    let found: Vec<Vec<u64>> = module(text).functions.iter().map(|f| addresses(&f.trigger)).collect();
    assert_eq!(found, expected, "{text}");
}

/// `@ = sum(arg…)` at the probe compiles, in the function of its first place, to these instructions.
#[track_caller]
fn reads(name: &str, argument: &str, expected: &[&str]) {
    let printed = weir_ir::text::print(&module(&format!("usdt:./app:{name} {{ @ = sum({argument}); }}")));
    let first = printed.split("b0:").nth(1).unwrap();
    let found: Vec<&str> = first.lines().map(str::trim).filter(|line| line.contains(" = ")).collect();
    let found: Vec<&str> = found.into_iter().map(|line| line.split_once(" = ").unwrap().1).collect();
    assert_eq!(found, expected, "{argument}:\n{printed}");
}

/// The script's only fault has this text.
#[track_caller]
fn refused(text: &str, message: &str) {
    let faults = compile(text).expect_err(text);
    assert_eq!(faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>(), [message], "{text}");
}

#[test]
fn a_clause_is_one_function_for_each_way_its_arguments_lie() {
    functions("usdt:./app:start { @ = count(); }", &[&[0x1000, 0x1100]]);
    functions("usdt:./app:prov:start { @ = sum(arg1); }", &[&[0x1000, 0x1100]]);
    functions("usdt:./app:start { @ = sum(arg0); }", &[&[0x1000], &[0x1100]]);
    functions("U:./app:* { @[probe] = count(); }", &[&[0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500]]);
    functions("usdt:./app:start, usdt:./app:tick { @[func] = count(); }", &[&[0x1000, 0x1100, 0x1300]]);
    functions("BEGIN, usdt:./app:tick { @ = count(); }", &[&[], &[0x1300]]);
}

#[test]
fn a_named_field_is_read_at_each_place_where_it_lies() {
    functions("usdt:./app:start { @ = sum(args.id); }", &[&[0x1000], &[0x1100]]);
    reads("start", "args.id", &["reg 7", "int 32", "shl v0, v1", "ashr v2, v1"]);
    refused("usdt:./app:wide { @ = args.id; }", "the arguments of `usdt:/opt/app:prov:wide` have no names");
    refused("usdt:./app:start { @ = args.ids; }", "`usdt:/opt/app:prov:start` has no field `ids`");
}

#[test]
fn parameters_of_functions_are_fields() {
    let read = |text: &str| weir_ir::text::print(&module(text));
    let size = read("uprobe:./app:alloc_a { @ = sum(args.size); }");
    assert!(size.contains("reg 7") && size.contains("ashr"), "{size}");
    let flags = read("uprobe:./app:alloc_b { @ = sum(args->flags); }");
    assert!(flags.contains("reg 2") && flags.contains("lshr"), "{flags}");
    let rate = read("uprobe:./app:alloc_a /args.rate > 0.5/ { @[str(args.path)] = count(); }");
    assert!(rate.contains("farg 0") && rate.contains("reg 6"), "{rate}");
    refused(
        "uprobe:./app:alloc_a { @ = args.s; }",
        "`args.s` of `uprobe:/opt/app:alloc_a` cannot be read: it is a struct, passed by value",
    );
    refused(
        "uprobe:./app:alloc_* { @ = args.size; }",
        "`args.size` of `uprobe:/opt/app:alloc_b` is another than that of `uprobe:/opt/app:alloc_a`",
    );
    refused("uprobe:./app:main { @ = args.size; }", "the arguments of `uprobe:/opt/app:main` have no names");
    refused(
        "uretprobe:./app:alloc_a { @ = args.size; }",
        "`args` is of a call's beginning, but `uretprobe:./app:alloc_a` runs at its end",
    );
}

#[test]
fn an_argument_is_read_where_the_note_says() {
    reads("start", "arg0", &["reg 7", "int 32", "shl v0, v1", "ashr v2, v1"]);
    reads("start", "arg1", &["reg 0", "int 8", "lshr v0, v1", "int 56", "shl v2, v3", "lshr v4, v3"]);
    reads(
        "wide",
        "arg0",
        &[
            "reg 4",
            "reg 0",
            "int 3",
            "shl v1, v2",
            "int -8",
            "add v0, v4",
            "add v3, v5",
            "read_int 2 v6",
            "int 48",
            "shl v7, v8",
            "ashr v9, v8",
        ],
    );
    reads("wide", "arg1", &["reg 16", "int 12288", "add v0, v1", "read_int 8 v2"]);
    reads("wide", "arg2", &["int -1"]);
}

#[test]
fn floating_point_arguments_are_doubles() {
    let printed = |body: &str| weir_ir::text::print(&module(&format!("usdt:./app:floating {{ {body} }}")));
    let text = printed("@ = arg0; @b = arg2;");
    for line in ["map @ plain f64", "= farg 3", "= reg 0", "f64 = or "] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    let text = printed("printf(\"%g %f %d\", arg1, arg3, arg4);");
    for line in ["(f64 at 8, f64 at 16, u64 at 24)", "= farg 1", "= read_int 4 "] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    refused("usdt:./app:floating { @ = sum(arg0); }", "`sum` takes an integer, not a double");
    refused(
        "usdt:./app:floating, usdt:./app:wide { @ = arg0; }",
        "`arg0` of `usdt:/opt/app:prov:wide` differs in its kind from that of other places",
    );
    refused(
        "usdt:./app:floating, uprobe:libc:malloc { @ = arg0; }",
        "`arg0` is floating-point at a static probe, and an integer of functions",
    );
}

#[test]
fn signs_are_those_of_the_note() {
    let printed = weir_ir::text::print(&module("usdt:./app:start { @a = sum(arg0); @b = sum(arg1); }"));
    assert!(printed.contains("map @a sum i64") && printed.contains("map @b sum u64"), "{printed}");
}

#[test]
fn semaphores_and_names_are_kept() {
    let module = module("usdt:./app:start { print(probe); }");
    let Trigger::Usdt { sites } = &module.functions[0].trigger else { panic!("{module:?}") };
    assert_eq!(sites[1].semaphore, Some(0x4000));
    assert_eq!(module.schema.sites[sites[1].cookie as usize].probe, "usdt:/opt/app:prov:start");
}

#[test]
fn arguments_that_are_not_there_are_refused() {
    refused("usdt:./app:tick { @ = arg0; }", "`usdt:/opt/app:prov:tick` has no `arg0`");
    refused("usdt:./app:start { @ = arg2; }", "`usdt:/opt/app:prov:start` has no `arg2`");
    refused(
        "usdt:./app:end { @ = arg0; }",
        "`arg0` of `usdt:/opt/app:prov:end` cannot be read: floating-point: no type",
    );
    refused("uprobe:libc:malloc { @ = arg6; }", "not supported by weir yet: `arg6` of a function");
    refused("usdt:./app:nothing { @ = 1; }", "no static probe nothing in ./app");
    refused("usdt:./app { @ = 1; }", "`usdt` needs a binary and a name");
    refused("usdt:./app:prov: { @ = 1; }", "a part of the `usdt` probe is empty");
    refused(
        "BEGIN, usdt:./app:start { @ = arg0; }",
        "`arg0` is of the traced process, but `BEGIN` runs in weir itself, not in the target",
    );
}
