//! What cannot be compiled is refused with the clause, what was given and the limit.

use weir_codegen::{Callee, Options, compile, compile_calling, compile_with};
use weir_ir::{Module, text};

fn module(schema: &str, body: &str) -> Module {
    let source = format!("max_map_keys 16\n{schema}\nfn \"uprobe:x:f\" uprobe {{\nb0:\n{body}\n}}\n");
    text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// `want`: all in the message.
fn check(schema: &str, body: &str, want: &[&str]) {
    let error = compile(&module(schema, body)).expect_err(body).to_string();
    for part in want {
        assert!(error.contains(part), "{error} lacks {part}");
    }
}

#[test]
fn refuses_more_than_a_program_has() {
    // Times are never merged: all are alive until they are added up.
    let count = 100;
    let mut body: String = (0..count).map(|n| format!("v{n}: u64 = nsecs\n")).collect();
    for n in 0..count - 1 {
        let (to, from) = (count + n, if n == 0 { 0 } else { count + n - 1 });
        body += &format!("v{to}: u64 = add v{from}, v{}\n", n + 1);
    }
    body += &format!("set @, v{}\nreturn", 2 * count - 2);
    check("map @ plain u64", &body, &["uprobe:x:f", "bytes of stack", "512"]);

    let strings: String = (0..3).map(|n| format!("v{n}: str16384 = read_str v3\n")).collect();
    let body = format!(
        "v3: u64 = arg 0\n{strings}v4: u64 = streq v0, v1\nv5: u64 = streq v1, v2\nv6: u64 = streq v0, v2\n\
                        v7: u64 = add v4, v5\nv8: u64 = add v6, v7\nset @, v8\nreturn"
    );
    check("map @ plain u64", &body, &["uprobe:x:f", "49152 bytes", "32760"]);
}

#[test]
fn refuses_more_than_a_program_has_beside_the_one_that_it_calls() {
    let body = "v0: u64 = call_program\nbranch v0, b1, b2 b1: v1: str64 = read_str v2\nv3: u64 = streq v1, v1\nset @, v3\n\
                jump b2 b2: return\nvalue v2: u64";
    let body = body.replace("b1: v1", "b1: v2: u64 = arg 0\nv1").replace("\nvalue v2: u64", "");
    let module = module("map @ plain u64", &body);
    let message = |stack_bytes: u32| {
        let callee = Callee { insns: &[], maps: &[], stack_bytes };
        compile_calling(&module, &Options::default(), Some(&callee)).err().map(|error| error.to_string())
    };
    assert_eq!(message(64), None);
    let parts = ["uprobe:x:f: its keys, strings and values need", "has 0 beside the program that it calls"];
    let refused = message(512).expect("nothing is left");
    assert!(parts.iter().all(|part| refused.contains(part)), "{refused}");
    let alone = compile(&module).expect_err("there is no program").to_string();
    assert_eq!(alone, "uprobe:x:f: it calls a program, and none was given");
}

#[test]
fn refuses_rings_that_are_none_and_records_that_would_not_fit() {
    let long = module("action printf \"%s\" (str4096 at 8)", "v0: str4096 = str \"x\"\nemit 0(v0)\nreturn");
    let check = |ring_bytes: u32, want: &str| {
        let error =
            compile_with(&long, &Options { ring_bytes, ..Options::default() }).expect_err(want).to_string();
        assert!(error.contains(want), "{error} lacks {want}");
    };
    check(4096, "uprobe:x:f: it needs a record of 4104 bytes, and the ring takes 2048");
    check(0, "a ring of 0 bytes");
    check(5000, "a ring of 5000 bytes");
    check(2048, "a ring of 2048 bytes");
    assert!(compile_with(&long, &Options { ring_bytes: 16384, ..Options::default() }).is_ok());
}

#[test]
fn refuses_modules_that_are_not_valid() {
    check("map @ plain u64", "set @, v0\nreturn\nvalue v0: u64", &["not valid", "v0 is used where"]);
}
