//! Text forms: what is printed is what tcpdump prints, and is read back; what is wrong is said with its place.

use weir_cbpf::text::{self, Form};
use weir_cbpf::{Insn, opcode};

/// `tcpdump -y EN10MB -d 'tcp port 80 and ip'` (4.99.3), without lines that are of a kind seen before.
const DISASSEMBLY: &str = "\
(000) ldh      [12]
(001) jeq      #0x800           jt 2\tjf 8
(002) ldb      [23]
(003) jset     #0x1fff          jt 8\tjf 4
(004) ldxb     4*([14]&0xf)
(005) ldh      [x + 14]
(006) jeq      #0x50            jt 7\tjf 8
(007) ret      #262144
(008) ret      #0
";

const C: &str = "\
{ 0x28, 0, 0, 0x0000000c },
{ 0x15, 0, 6, 0x00000800 },
{ 0x30, 0, 0, 0x00000017 },
{ 0x45, 4, 0, 0x00001fff },
{ 0xb1, 0, 0, 0x0000000e },
{ 0x48, 0, 0, 0x0000000e },
{ 0x15, 0, 1, 0x00000050 },
{ 0x6, 0, 0, 0x00040000 },
{ 0x6, 0, 0, 0x00000000 },
";

const DECIMAL: &str = "\
9
40 0 0 12
21 0 6 2048
48 0 0 23
69 4 0 8191
177 0 0 14
72 0 0 14
21 0 1 80
6 0 0 262144
6 0 0 0
";

const ONE_LINE: &str =
    "9,40 0 0 12,21 0 6 2048,48 0 0 23,69 4 0 8191,177 0 0 14,72 0 0 14,21 0 1 80,6 0 0 262144,6 0 0 0\n";

#[test]
fn every_form_is_printed_and_read_back() {
    let forms =
        [(Form::Disassembly, DISASSEMBLY), (Form::C, C), (Form::Decimal, DECIMAL), (Form::OneLine, ONE_LINE)];
    for (form, text) in forms {
        assert_eq!(text::guess(text), form);
        let insns = text::parse(text, form).unwrap();
        for (form, text) in forms {
            assert_eq!(text::print(&insns, form), text);
        }
        assert_eq!(text::from_bytes(&text::to_bytes(&insns)), Ok(insns));
    }
}

/// What `bpf_image` of libpcap 1.10.3 says.
#[test]
fn single_lines_are_libpcap_s() {
    let line = |code, jt, jf, k, at| text::insn_text(Insn { code, jt, jf, k }, at);
    let check = |code, k, expected: &str| assert_eq!(line(code, 5, 7, k, 3), format!("(003) {expected}"));
    check(0x00, 0x1234, "ld       #0x1234");
    check(0x01, 0xffff_ffff, "ldx      #0xffffffff");
    check(0x02, 3, "st       M[3]");
    check(0x03, 0xffff_ffff, "stx      M[-1]");
    check(0x04, 0x8000_0000, "add      #-2147483648");
    check(0x05, 4660, "ja       4664");
    check(0x05, -5_i32 as u32, "ja       -1");
    check(0x06, 0xffff_ffff, "ret      #-1");
    check(0x07, 1, "tax      ");
    check(0x0c, 1, "add      x");
    check(0x0e, 1, "unimp    0xe");
    check(0x15, 0xffff_ffff, "jeq      #0xffffffff      jt 9\tjf 11");
    check(0x16, 1, "ret      ");
    check(0x1d, 1, "jeq      x                jt 9\tjf 11");
    check(0x20, 0xffff_f000 + 44, "ld       [vlan_tci]");
    check(0x28, 0xffff_f000 + 48, "ldh      [vlanp]");
    check(0x30, 0xffff_f000, "ldb      [proto]");
    check(0x30, 0xffff_f001, "ldb      [-4095]");
    check(0x40, 0xffff_f000, "ld       [x + -4096]");
    check(0x44, 0xffff_ffff, "or       #0xffffffff");
    check(0x55, 1, "unimp    0x55             jt 9\tjf 11");
    check(0x60, 1, "ld       M[1]");
    check(0x64, 33, "lsh      #33");
    check(0x80, 1, "ld       #pktlen");
    check(0x81, 1, "unimp    0x81");
    check(0x84, 1, "neg      ");
    check(0x87, 1, "txa      ");
    check(0xb1, 0xffff_f000, "ldxb     4*([-4096]&0xf)");
    check(0x105, 1, "unimp    0x105");
    check(0xfffd, 1, "unimp    0xfffd           jt 9\tjf 11");
    assert_eq!(line(0x15, 255, 254, 0, 65535), "(65535) jeq      #0x0             jt 65791\tjf 65790");
}

#[test]
fn every_opcode_is_read_back_from_its_line() {
    assert_eq!(opcode::ALL.len(), 49);
    for row in opcode::ALL {
        for k in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_f000 + 40, 0xffff_ffff] {
            let targets = if opcode::has_targets(row.code) { (3, 255) } else { (0, 0) };
            let insn = Insn { code: row.code, jt: targets.0, jf: targets.1, k };
            let is_said = !matches!(
                row.operand,
                opcode::Operand::None | opcode::Operand::X | opcode::Operand::Length | opcode::Operand::Code
            );
            let expected = if is_said { insn } else { Insn { k: 0, ..insn } };
            let text = text::print(&[insn], Form::Disassembly);
            assert_eq!(text::parse(&text, Form::Disassembly), Ok(vec![expected]), "{text}");
        }
    }
}

#[test]
fn text_is_read_however_it_is_spaced() {
    let expected = vec![Insn::load(0x08, 12), Insn::ret(0)];
    let check = |form, text: &str| assert_eq!(text::parse(text, form).as_ref(), Ok(&expected), "{text:?}");
    check(Form::Disassembly, "\n (0) ldh [0xc]  \r\n\n(1)ret #0x0");
    check(Form::C, "{0x28,0,0,12},{ 6 , 0, 0, 0 }");
    check(Form::Decimal, "2 \r\n40 0 0 12\r\n6 0 0 0\r\n\n");
    check(Form::OneLine, "2, 40 0 0 12, 6 0 0 0,");
}

#[test]
fn faults_have_a_place() {
    let check = |form, text: &str, expected: &str| {
        assert_eq!(text::parse(text, form).unwrap_err().to_string(), expected, "{text:?}");
    };
    check(Form::Disassembly, "ldh [12]", "line 1, column 1: `ldh`; expected `(`");
    check(
        Form::Disassembly,
        "(001) ldh [12]",
        "line 1, column 2: `001`; expected the number of this instruction, a number from 0 to 0",
    );
    check(
        Form::Disassembly,
        "(000) ret #0\n(001) lea [3]",
        "line 2, column 7: `lea`; expected a mnemonic, such as `ld`",
    );
    check(Form::Disassembly, "(000) tax #1", "line 1, column 11: `#1`; expected an operand that tax takes");
    check(Form::Disassembly, "(000) ldb [x - 1]", "line 1, column 14: `-`; expected `+`");
    check(
        Form::Disassembly,
        "(000) jeq #1 jt 1 jf 0",
        "line 1, column 22: `0`; expected an instruction that jf can reach from here, a number from 1 to 256",
    );
    check(Form::Disassembly, "(000) jeq #1\n", "line 1, column 13: the line ends; expected `jt`");
    check(Form::Disassembly, "(000) ret #0 7", "line 1, column 14: `7`; expected the end of the line");
    check(Form::C, "{ 0x28, 256, 0, 0 },", "line 1, column 9: `256`; expected jt, a number from 0 to 255");
    check(Form::C, "{ 6, 0, 0, 0 } { 6", "line 1, column 16: `{`; expected `,`");
    check(
        Form::Decimal,
        "2\n6 0 0 0\n",
        "line 3, column 1: the text ends; expected the code, a number from 0 to 65535",
    );
    check(
        Form::Decimal,
        "1\n6 0 0 0\n6 0 0 0",
        "line 3, column 1: `6`; expected the end, after 1 instructions as the first number says",
    );
    check(Form::OneLine, "1;6 0 0 0", "line 1, column 2: `;6`; expected `,`");
    assert_eq!(
        text::from_bytes(&[0; 9]).unwrap_err().to_string(),
        "9 bytes are no whole number of instructions, which have 8 bytes each"
    );
}
