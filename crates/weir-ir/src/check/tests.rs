//! What the check accepts, and the fault that it names in what it refuses.

use super::check;
use crate::text;

/// `body` is block b0 of a function beside a schema with one of each; `want` is part of the one fault, or "".
fn case(body: &str, want: &str) {
    let text = format!(
        "max_map_keys 16\nmap @ plain i64\nmap @s[str16] plain str32\nmap @t[(u64, str16)] count\nmap @h hist\nmap @m[u64] max i64\nmap @u[usym] plain usym\n\
         action printf \"%d\" (i64 at 8, str16 at 16)\nsite \"p\" \"f\"\nfn \"f\" begin {{\nb0:\n{body}\n}}\n"
    );
    let module = text::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    match check(&module) {
        Ok(()) => assert_eq!(want, "", "accepted:\n{body}"),
        Err(faults) => {
            assert!(!want.is_empty(), "{faults:?} for\n{body}");
            assert!(faults.iter().any(|fault| fault.contains(want)), "{faults:?} lacks {want} for\n{body}");
        }
    }
}

#[test]
fn symbols_and_stacks_are_of_their_own_types() {
    case("v0: u64 = pid\nv1: u64 = user_symbol v0\nreturn", "a symbol of the wrong type");
    case("v0: u64 = pid\nset @u[v0], v0\nreturn", "not Usym");
    case("v0: ustack raw 3 = user_stack raw 3\nreturn", "no stack of the target");
    case("v0: i64 = stack_length 3\nreturn", "no stack of the target");
    case("v0: u64 = pid\nsignal v0\nreturn", "no signal to weir itself");
    case("v0: u64 = call_program\nreturn", "no event in weir itself");
    case("v0: ustack raw 3 = int 1\nreturn", "not an integer");
    case("v0: u64 = pid\nv1: usym = user_symbol v0\nv2: i64 = eq v1, v1\nreturn", "compared");
}

#[test]
fn accepts_what_fits() {
    case("return", "");
    case("v0: u64 = pid\nv1: str16 = comm\naggregate @t[v0, v1]\nreturn", "");
    case("v0: i64 = int 5\nset @, v0\nv1: u64 = get @\nv2: i64 = add_to @, v1\nreturn", "");
    case("v0: str8 = str \"a\"\nv1: str32 = get @s[v0]\nset @s[v0], v1\nreturn", "");
    case("v0: i64 = int 5\nv1: str16 = comm\nemit 0(v0, v1)\nreturn", "");
    case("v0: u64 = int 5\naggregate @h, v0\nreturn", "");
    case("v0: f64 = farg 7\nv1: i64 = int 52\nv2: i64 = lshr v0, v1\nv3: f64 = or v0, v2\nreturn", "");
    case("v0: f64 = int 4607182418800017408\nreturn", "");
    case("v0: u64 = pid\nv1: usym = user_symbol v0\nset @u[v1], v1\nreturn", "");
    case("v0: ustack perf 9 = int 0\nreturn", "");
    case(
        "v0: u64 = int 5\nv1: i64 = get @m[v0]\nbranch v1, b1, b2(v0)\nb1:\nreturn\nb2(v2: i64):\nreturn",
        "",
    );
}

#[test]
fn rejects_values_not_defined_on_every_path() {
    case("v1: u64 = add v0, v0\nv0: u64 = pid\nreturn", "v0 is used where it is not defined");
    case(
        "v0: u64 = pid\nbranch v0, b1, b2\nb1:\nv1: u64 = tid\njump b2\nb2:\nset @, v1\nreturn",
        "v1 is used where",
    );
    case("set @, v0\nreturn\nvalue v0: u64", "v0 is used where");
    case("v0: u64 = pid\nv0: u64 = pid\nreturn", "v0 is defined twice");
}

#[test]
fn rejects_wrong_types() {
    case("v0: str16 = comm\nv1: u64 = add v0, v0\nreturn", "not Int");
    case("v0: u64 = comm\nreturn", "Comm of the wrong type");
    case("v0: u64 = pid\naggregate @t[v0]\nreturn", "1 values where 2 are wanted");
    case("v0: u64 = pid\naggregate @t[v0, v0]\nreturn", "not Str");
    case("v0: u64 = pid\nset @h, v0\nreturn", "@h is set, but aggregates");
    case("aggregate @h\nreturn", "@h needs a value");
    case("v0: u64 = pid\naggregate @, v0\nreturn", "@ aggregates nothing");
    case(
        "v0: str32 = str \"a\"\nv1: i64 = int 1\nemit 0(v1, v0)\nreturn",
        "v0 is Str { bytes: 32 }, not Str { bytes: 16 }",
    );
    case("emit 4()\nreturn", "no action 4");
    case("v0: u64 = get @h\nreturn", "no single number");
    case("v0: str8 = str \"123456789\"\nreturn", "9 bytes of text");
    case("v0: u64 = arg 6\nreturn", "arg 6");
    case("v0: f64 = farg 8\nreturn", "farg 8");
    case("v0: u64 = farg 0\nreturn", "Float(0) of the wrong type");
    case("v0: f64 = farg 0\nv1: u64 = ult v0, v0\nreturn", "cannot be compared");
    case("v0: f64 = farg 0\nset @, v0\nreturn", "not Int");
    case("v0: func = func\nv1: probe = probe\nv2: u64 = eq v0, v1\nreturn", "cannot be compared");
}

#[test]
fn rejects_wrong_jumps() {
    case("jump b0", "a jump back to b0");
    case("jump b7", "a jump to no block b7");
    case("jump b1\nb1(v0: u64):\nreturn", "b1 takes 1 values, not 0");
    case("v0: str16 = comm\nbranch v0, b1, b1\nb1:\nreturn", "not Int");
    case("jump b1\nb1:\njump b1", "does not ask whether it may go round again");
    // The block that asks is on one of two ways round.
    case(
        "jump b1\nb1:\nv0: u64 = pid\nbranch v0, b2, b3\nb2:\nv1: u64 = may_loop\njump b1\nb3:\njump b1",
        "a loop from b1 on that does not ask",
    );
    // Into the middle of a loop.
    case(
        "v0: u64 = pid\nbranch v0, b1, b2\nb1:\njump b2\nb2:\nv1: u64 = may_loop\nbranch v1, b1, b3\nb3:\nreturn",
        "a jump back to b1, which is not on every path here",
    );
    // What a round makes is not there behind the loop, or at its head.
    case(
        "jump b1\nb1:\nset @, v1\nv0: u64 = may_loop\nbranch v0, b2, b3\nb2:\nv1: i64 = int 1\njump b1\nb3:\nreturn",
        "v1 is used where it is not defined on every path",
    );
}

#[test]
fn rejects_a_wrong_schema() {
    let check_text = |line: &str, want: &str| {
        let module = text::parse(&format!("max_map_keys 16\nmap @k[u64] count\n{line}\n")).expect(line);
        let faults = check(&module).expect_err(line);
        assert!(faults.iter().any(|fault| fault.contains(want)), "{faults:?} lacks {want}");
    };
    check_text("map @k hist", "named twice");
    check_text("action printf \"\" (u64 at 16)", "a field at 16, not at 8");
    check_text("action print_map_key @k str16 at 8", "key type");
    check_text("action exit str16 at 8", "not an integer");
    check_text("fn \"f\" uprobe {\nsite \"b\" \"f\" 3\nb0:\nreturn\n}", "site 3 has no name");
    check_text("fn \"f\" begin {\n}", "no entry block");
}
