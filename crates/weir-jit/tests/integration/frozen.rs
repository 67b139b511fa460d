//! What nobody changes is compiled into the program: whatever stands in the memory of such a map, it is not read.

use crate::engines;

use weir_ebpf::asm;
use weir_interp::threaded::Threaded;
use weir_jit::Flags;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;
use weir_verifier::{Limits, Maps, verify};

/// A table of which one number is the size of an access, and one chooses between an answer and an access outside.
const TEXT: &str = "
map table array key 4 value 16 entries 1 flags 0x80
map values array key 4 value 64 entries 1
program \"p\" probe
    r6 = map[table][0] ll
    r2 = *(u32 *)(r6 + 4)
    r1 = map[values][0] ll
    r1 += r2
    r0 = *(u8 *)(r1 + 0)
    r3 = *(s16 *)(r6 + 8)
    r0 += r3
    r4 = *(u64 *)(r6 + 0)
    if w4 == 7 goto out
    r1 += 64
    r0 = *(u8 *)(r1 + 0)
out:
    exit
";

#[test]
fn memory_is_not_looked_at() {
    let object = asm::parse(TEXT).unwrap();
    let contents = [7, 0, 0, 0, 63, 0, 0, 0, 0xfe, 0xff, 0, 0, 0, 0, 0, 0];
    let frozen = [Some(&contents[..]), None];
    let (program, limits) = (&object.programs[0], Limits::default());
    assert!(verify(program, &object.maps, &limits).is_err(), "without what the table holds it is not safe");
    let verified = verify(program, Maps::frozen(&object.maps, &frozen), &limits).unwrap();

    let mut is_interpreted = false;
    for abi in engines::abis_for(&verified) {
        let segment = engines::segment_for(verified.maps(), &abi);
        // Somebody writes all over the table: an offset far outside, and the other way.
        segment.map(0).update(&[0; 4], &[0xff; 16], 0).unwrap();
        let mut values = [0; 64];
        values[63] = 40;
        segment.map(1).update(&[0; 4], &values, 0).unwrap();
        let executable = engines::compiled(&verified, &abi, Flags::Change);
        let code = LocalProgram::load(&executable, &segment).unwrap();
        assert_eq!(code.run(&mut Frame::default()), 38);
        // Where runs claim lanes, the other interpreter runs it, which checks each access.
        if let Some(threaded) = Threaded::of(&verified, &segment) {
            assert_eq!(threaded.run(&mut Frame::default()), 38);
            is_interpreted = true;
        }
    }
    assert!(is_interpreted, "the interpreter has a form for all of this");
}
