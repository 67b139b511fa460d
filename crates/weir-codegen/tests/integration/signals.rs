//! Signals are sent when all else is done, and only by programs that may.

use weir_codegen::{Compiled, Options, compile_with};
use weir_ebpf::asm;
use weir_ir::text;
use weir_verifier::{Limits, verify};

const MODULE: &str = r#"max_map_keys 1
shows_mangled
map @ plain word truth
action print_value word enum 0 at 8
site "p" "f"
fn "uprobe:a:f" uprobe {
b0:
  v0: u64 = arg 0
  signal v0
  v1: i64 = int 12
  signal_thread v1
  set @, v0
  v2: i64 = stack_length 127
  emit 0(v2)
  return
}
"#;

fn compiled(is_for_kernel: bool) -> Compiled {
    let module = text::parse(MODULE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(text::parse(&text::print(&module)).as_ref(), Ok(&module));
    compile_with(&module, &Options { is_for_kernel, ..Options::default() }).unwrap()
}

#[test]
fn signals_come_last_in_a_process() {
    let object = &compiled(false).object;
    let code = asm::print(object);
    let last = code.rfind("send_signal_thread").unwrap();
    assert!(code[..last].contains("ringbuf_submit") && !code[last..].contains("call 0x"), "{code}");
    // The first is sent before the second is to be.
    assert_eq!(code.matches("; send_signal\n").count(), 3, "{code}");
    let allowed = Limits { allow_changes: true, ..Limits::default() };
    verify(&object.programs[0], &object.maps, &allowed).unwrap_or_else(|why| panic!("{why}\n{code}"));
    verify(&object.programs[0], &object.maps, &Limits::default()).expect_err("it was not allowed");
}

#[test]
fn the_kernel_is_asked_at_once() {
    let code = asm::print(&compiled(true).object);
    assert_eq!(code.matches("; send_signal\n").count(), 1, "{code}");
    assert!(code.find("send_signal_thread").unwrap() < code.find("get_stack").unwrap(), "{code}");
}
