//! What scripts become: the IR text of the main shapes.

use crate::language::compile;

/// The IR of the script, without what every module has, is `expected`.
#[track_caller]
fn check(text: &str, expected: &str) {
    let (module, _) = compile(text).unwrap_or_else(|faults| panic!("{text}: {faults:#?}"));
    let printed = weir_ir::text::print(&module);
    let keep =
        |line: &&str| !line.is_empty() && !line.starts_with("max_map_keys") && !line.starts_with("  site ");
    let tidy =
        |text: &str| text.lines().map(str::trim_end).filter(keep).map(short).collect::<Vec<_>>().join("\n");
    assert_eq!(tidy(&printed), tidy(expected), "{text}:\n{printed}");
}

/// A function's line without its span.
fn short(line: &str) -> String {
    match line.split_once(" span ") {
        Some((start, _)) if line.starts_with("fn ") => format!("{start} {{"),
        _ => line.to_string(),
    }
}

/// The clause at malloc with this body has these maps, actions and instructions.
#[track_caller]
fn body(body: &str, schema: &str, code: &str) {
    let expected = format!(
        "{schema}\nsite \"uprobe:/lib/libc.so.6:malloc\" \"malloc\"\nfn \"uprobe:libc:malloc\" uprobe {{\n{code}\n}}"
    );
    check(&format!("uprobe:libc:malloc {{ {body} }}"), &expected);
}

#[test]
fn an_aggregation_is_one_instruction() {
    body("@ = count()", "map @ count", "b0:\n  aggregate @\n  return");
    body(
        "@[arg0] = hist(arg1)",
        "map @[u64] hist",
        "b0:\n  v0: u64 = arg 1\n  v1: u64 = arg 0\n  aggregate @[v1], v0\n  return",
    );
}

#[test]
fn symbols_and_stacks_are_one_instruction() {
    body(
        "@[usym(arg0), ustack(perf, 3)] = count()",
        "map @[(usym, ustack perf 3)] count",
        "b0:\n  v0: u64 = arg 0\n  v1: usym = user_symbol v0\n  v2: ustack perf 3 = user_stack perf 3\n  \
         aggregate @[v1, v2]\n  return",
    );
}

#[test]
fn adding_to_a_map_is_one_instruction() {
    body("@x++", "map @x plain i64", "b0:\n  v0: i64 = int 1\n  v1: i64 = add_to @x, v0\n  return");
    body("@x += arg0", "map @x plain u64", "b0:\n  v0: u64 = arg 0\n  v1: u64 = add_to @x, v0\n  return");
    body(
        "@x -= 5",
        "map @x plain i64",
        "b0:\n  v0: i64 = int 5\n  v1: i64 = int 0\n  v2: i64 = sub v1, v0\n  v3: i64 = add_to @x, v2\n  return",
    );
    body(
        "@y = ++@x",
        "map @y plain i64\nmap @x plain i64",
        "b0:\n  v0: i64 = int 1\n  v1: i64 = add_to @x, v0\n  v2: i64 = int 1\n  v3: i64 = add v1, v2\n  set @y, v3\n  return",
    );
}

#[test]
fn other_compound_operators_read_and_write() {
    body(
        "@x[1] *= 2",
        "map @x[i64] plain i64",
        "b0:\n  v0: i64 = int 2\n  v1: i64 = int 1\n  v2: i64 = get @x[v1]\n  v3: i64 = mul v2, v0\n  set @x[v1], v3\n  return",
    );
}

#[test]
fn signs_choose_the_operation() {
    body(
        "$a = -8; @q = $a / 2; @r = arg0 / 2",
        "map @q plain i64\nmap @r plain u64",
        "b0:\n  v0: i64 = int -8\n  v1: i64 = int 2\n  v2: i64 = sdiv v0, v1\n  set @q, v2\n  v3: u64 = arg 0\n  v4: i64 = int 2\n  v5: u64 = udiv v3, v4\n  set @r, v5\n  return",
    );
    body(
        "@x = (int8)arg0; @y = (uint16)arg0 >> 1",
        "map @x plain i64\nmap @y plain u64",
        "b0:\n  v0: u64 = arg 0\n  v1: i64 = int 56\n  v2: i64 = shl v0, v1\n  v3: i64 = ashr v2, v1\n  set @x, v3\n  v4: u64 = arg 0\n  v5: u64 = int 65535\n  v6: u64 = and v4, v5\n  v7: i64 = int 1\n  v8: u64 = lshr v6, v7\n  set @y, v8\n  return",
    );
}

#[test]
fn a_predicate_is_a_branch() {
    check(
        "uprobe:libc:malloc /arg0 > 5/ { @ = count() }",
        "map @ count
site \"uprobe:/lib/libc.so.6:malloc\" \"malloc\"
fn \"uprobe:libc:malloc\" uprobe {
b0:
  v0: u64 = arg 0
  v1: i64 = int 5
  v2: i64 = ugt v0, v1
  branch v2, b1, b2
b1:
  aggregate @
  jump b2
b2:
  return
}",
    );
}

#[test]
fn paths_meet_in_block_parameters() {
    body(
        "$x = 1; if (arg0) { $x = 2 } else { $y = 3 } @ = $x",
        "map @ plain i64",
        "b0:\n  v0: i64 = int 1\n  v1: u64 = arg 0\n  branch v1, b1, b2\nb1:\n  v2: i64 = int 2\n  jump b3(v2)\nb2:\n  v3: i64 = int 3\n  jump b3(v0)\nb3(v4: i64):\n  set @, v4\n  return",
    );
    body(
        "@ = arg0 ? comm : \"none\"",
        "map @ plain str16",
        "b0:\n  v0: u64 = arg 0\n  branch v0, b1, b2\nb1:\n  v1: str16 = comm\n  jump b3(v1)\nb2:\n  v2: str8 = str \"none\"\n  jump b3(v2)\nb3(v3: str16):\n  set @, v3\n  return",
    );
}

#[test]
fn logical_operators_are_control_flow() {
    body(
        "if (arg0 && arg1 || !arg2) { @ = count() }",
        "map @ count",
        "b0:\n  v0: u64 = arg 0\n  branch v0, b1, b2\nb1:\n  v1: u64 = arg 1\n  branch v1, b3, b2\nb2:\n  v2: u64 = arg 2\n  branch v2, b4, b3\nb3:\n  aggregate @\n  jump b4\nb4:\n  return",
    );
    body(
        "@ = arg0 && arg1",
        "map @ plain i64",
        "b0:\n  v0: u64 = arg 0\n  branch v0, b1, b3\nb1:\n  v1: u64 = arg 1\n  branch v1, b2, b3\nb2:\n  v2: i64 = int 1\n  jump b4(v2)\nb3:\n  v3: i64 = int 0\n  jump b4(v3)\nb4(v4: i64):\n  set @, v4\n  return",
    );
}

#[test]
fn what_follows_exit_or_return_is_left_out() {
    body("exit(); print(1)", "action exit", "b0:\n  emit 0()\n  return");
    body(
        "if (arg0) { exit(3) } print(1)",
        "action exit i64 at 8\naction print_value i64 at 8",
        "b0:\n  v0: u64 = arg 0\n  branch v0, b1, b2\nb1:\n  v1: i64 = int 3\n  emit 0(v1)\n  return\nb2:\n  v2: i64 = int 1\n  emit 1(v2)\n  return",
    );
    body(
        "if (arg0) { return } else { exit() } print(1)",
        "action exit",
        "b0:\n  v0: u64 = arg 0\n  branch v0, b1, b2\nb1:\n  return\nb2:\n  emit 0()\n  return",
    );
}

#[test]
fn strings_are_read_to_the_length_asked_for() {
    body(
        "@ = str(arg0)",
        "map @ plain str1024",
        "b0:\n  v0: u64 = arg 0\n  v1: str1024 = read_str v0\n  set @, v1\n  return",
    );
    body(
        "@ = str(arg0, 8)",
        "map @ plain str8",
        "b0:\n  v0: u64 = arg 0\n  v1: str8 = read_str v0\n  set @, v1\n  return",
    );
    body(
        "@ = str(arg0, 9)",
        "map @ plain str16",
        "b0:\n  v0: u64 = arg 0\n  v1: u64 = int 8\n  v2: str16 = read_str v0, v1\n  set @, v2\n  return",
    );
    body(
        "@ = str(arg0, arg1)",
        "map @ plain str1024",
        "b0:\n  v0: u64 = arg 0\n  v1: u64 = arg 1\n  v2: u64 = int 0\n  v3: i64 = ne v1, v2\n  v4: u64 = sub v1, v3\n  v5: str1024 = read_str v0, v4\n  set @, v5\n  return",
    );
    body("@ = str($2)", "map @ plain str8", "b0:\n  v0: str8 = str \"abc\"\n  set @, v0\n  return");
}

#[test]
fn strings_take_the_length_of_their_place() {
    body(
        "@x[\"a\"] = \"b\"; @x[comm] = comm",
        "map @x[str16] plain str16",
        "b0:\n  v0: str16 = str \"b\"\n  v1: str16 = str \"a\"\n  set @x[v1], v0\n  v2: str16 = comm\n  v3: str16 = comm\n  set @x[v3], v2\n  return",
    );
}

#[test]
fn records_lie_field_after_field_and_the_longest_string_is_the_last() {
    body(
        "printf(\"%d %s %s\\n\", pid, comm, func)",
        "action printf \"%d %s %s\\n\" (u64 at 8, str16 at 24, func at 16)",
        "b0:\n  v0: u64 = pid\n  v1: str16 = comm\n  v2: func = func\n  emit 0(v0, v1, v2)\n  return",
    );
    body(
        "print((1, comm))",
        "action print_value (i64, str16) at 8",
        "b0:\n  v0: i64 = int 1\n  v1: str16 = comm\n  emit 0(v0, v1)\n  return",
    );
    body(
        "@[1, comm] = count(); print(@[2, \"a\"]); print(@, 5, 2); clear(@); zero(@); delete(@, (1, comm))",
        "map @[(i64, str16)] count\naction print_value i64 at 8\naction print_map @ top 5 div 2\naction clear_map @\naction zero_map @",
        "b0:\n  v0: i64 = int 1\n  v1: str16 = comm\n  aggregate @[v0, v1]\n  v2: i64 = int 2\n  v3: str16 = str \"a\"\n  v4: i64 = get @[v2, v3]\n  emit 0(v4)\n  emit 1()\n  emit 2()\n  emit 3()\n  v5: i64 = int 1\n  v6: str16 = comm\n  delete @[v5, v6]\n  return",
    );
    body(
        "@[comm] = hist(1); print(@[\"a\"])",
        "map @[str16] hist\naction print_map_key @ str16 at 8",
        "b0:\n  v0: i64 = int 1\n  v1: str16 = comm\n  aggregate @[v1], v0\n  v2: str16 = str \"a\"\n  emit 0(v2)\n  return",
    );
}

#[test]
fn names_compare_as_cookies() {
    check(
        "uprobe:libc:*alloc { if (func == \"calloc\") { @ = count() } }",
        "map @ count
site \"uprobe:/lib/libc.so.6:malloc\" \"malloc\"
site \"uprobe:/lib/libc.so.6:calloc\" \"calloc\"
fn \"uprobe:libc:*alloc\" uprobe {
b0:
  v0: func = func
  v1: func = int 1
  v2: i64 = eq v0, v1
  branch v2, b1, b2
b1:
  aggregate @
  jump b2
b2:
  return
}",
    );
    body(
        "@ = func == \"x\"",
        "map @ plain i64",
        "b0:\n  v0: func = func\n  v1: i64 = int 0\n  set @, v1\n  return",
    );
}

#[test]
fn a_clause_is_a_function_for_each_place_it_runs_in() {
    check(
        "BEGIN, interval:s:1, uprobe:libc:free, uprobe:libc:malloc { @[probe] = count() }",
        "map @[probe] count
site \"BEGIN\" \"\"
site \"interval:s:1\" \"\"
site \"uprobe:/lib/libc.so.6:free\" \"free\"
site \"uprobe:/lib/libc.so.6:malloc\" \"malloc\"
fn \"BEGIN\" begin {
b0:
  v0: probe = int 0
  aggregate @[v0]
  return
}
fn \"interval:s:1\" interval 1000000000 {
b0:
  v0: probe = int 1
  aggregate @[v0]
  return
}
fn \"uprobe:libc:free,uprobe:libc:malloc\" uprobe {
b0:
  v0: probe = probe
  aggregate @[v0]
  return
}",
    );
}

#[test]
fn the_same_call_is_one_action_in_all_places() {
    let (module, _) = compile("BEGIN, END { printf(\"x\"); print(1) }").expect("sound");
    assert_eq!((module.functions.len(), module.schema.actions.len()), (2, 2));
}

#[test]
fn a_variable_that_is_declared_starts_at_zero() {
    body(
        "let $x; if (arg0) { $x = comm } @ = $x",
        "map @ plain str16",
        "b0:\n  v0: str16 = str \"\"\n  v1: u64 = arg 0\n  branch v1, b1, b2(v0)\nb1:\n  v2: str16 = comm\n  jump b2(v2)\nb2(v3: str16):\n  set @, v3\n  return",
    );
}

#[test]
fn entries_and_returns_of_a_clause_are_a_function_each() {
    check(
        "uprobe:libc:malloc, ur:libc:malloc { @ = count(); }",
        "map @ count
site \"uprobe:/lib/libc.so.6:malloc\" \"malloc\"
site \"uretprobe:/lib/libc.so.6:malloc\" \"malloc\"
fn \"uprobe:libc:malloc\" uprobe {
b0:
  aggregate @
  return
}
fn \"ur:libc:malloc\" uretprobe {
b0:
  aggregate @
  return
}",
    );
}

#[test]
fn the_result_of_a_call_is_in_rax() {
    check(
        "uretprobe:libc:malloc { @ = sum(retval); }",
        "map @ sum u64
site \"uretprobe:/lib/libc.so.6:malloc\" \"malloc\"
fn \"uretprobe:libc:malloc\" uretprobe {
b0:
  v0: u64 = reg 0
  aggregate @, v0
  return
}",
    );
}

#[test]
fn instructions_are_named_by_offset_address_and_source_line() {
    #[track_caller]
    fn sites(attach_point: &str, expected: &[(&str, u64)]) {
        let (module, _) = compile(&format!("{attach_point} {{ @[probe] = count(); }}")).unwrap();
        let weir_ir::Trigger::Uprobe { sites } = &module.functions[0].trigger else { panic!("{module:?}") };
        let name = |site: &weir_ir::SiteSpec| module.schema.sites[site.cookie as usize].probe.clone();
        let found: Vec<(String, Option<u64>)> = sites.iter().map(|site| (name(site), site.address)).collect();
        let expected: Vec<(String, Option<u64>)> = expected
            .iter()
            .map(|(name, address)| (format!("uprobe:/lib/libc.so.6:{name}"), Some(*address)))
            .collect();
        assert_eq!(found, expected, "{attach_point}");
    }
    sites("uprobe:libc:malloc+4", &[("malloc+4", 0x1004)]);
    sites("uprobe:libc:malloc+0x10", &[("malloc+16", 0x1010)]);
    sites("uprobe:libc:0x1234", &[("0x1234", 0x1234)]);
    sites("uprobe:libc@src/a.c:12", &[("src/a.c:12", 0x2000), ("src/a.c:12", 0x2010)]);
    sites("u:libc:a.c:12", &[("a.c:12", 0x2000), ("a.c:12", 0x2010)]);
}

#[test]
fn functions_have_names_of_source_text() {
    let (module, _) =
        compile("uprobe:libc:cpp:\"ns::f\", uretprobe:libc:rust:\"ns::f\" { @[probe, func] = count(); }")
            .unwrap();
    let names = |site: &weir_event::SiteName| format!("{} {}", site.probe, site.func);
    let found: Vec<String> = module.schema.sites.iter().map(names).collect();
    let expected = [
        "uprobe:libc:cpp:_ZN2ns1fEi ns::f(int)",
        "uprobe:libc:cpp:_ZN2ns1fEd ns::f(double)",
        "uretprobe:libc:rust:_ZN2ns1fEi ns::f(int)",
        "uretprobe:libc:rust:_ZN2ns1fEd ns::f(double)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn registers_are_numbered_as_the_processor_does() {
    for (number, name) in ["ax", "cx", "dx", "bx", "rsp", "bp", "rsi", "di", "r8", "r9"].iter().enumerate() {
        body(
            &format!("@ = reg(\"{name}\")"),
            "map @ plain u64",
            &format!("b0:\n  v0: u64 = reg {number}\n  set @, v0\n  return"),
        );
    }
    body("@ = reg(\"flags\")", "map @ plain u64", "b0:\n  v0: u64 = reg 17\n  set @, v0\n  return");
}
