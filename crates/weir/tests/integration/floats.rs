//! Floating-point arguments and results, end to end: what a script prints of them is what the program prints itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::target::{self, Source};

/// Every probed function prints its arguments before it is called, and its result after, in the form of the scripts here.
const SOURCE: &str = r#"
    #include <math.h>
    #include <stdio.h>
    #include <string.h>
    #ifdef __clang__
    #define PROBED __attribute__((noinline))
    #else
    #define PROBED __attribute__((noipa))
    #endif
    volatile double sink;
    PROBED double scale(double x, double y) { sink = x; return x * 2 + y; }
    PROBED float narrow(float x, long n, float y) { sink = n; return x / 3 - y; }
    PROBED double eight(double a, float b, double c, float d, double e, float f, double g, float h) {
        sink = a; return a + b + c + d + e + f + g + h;
    }
    PROBED double mixed(long i, double x, const char *s, float y) { sink = i + s[0]; return i + x - y; }
    /* Takes its arguments on the stack too, so that its return address is replaced. */
    PROBED double many(double a, double b, double c, double d, double e, double f, double g, double h, double i) {
        sink = i; return a + b + c + d + e + f + g + h + i;
    }
    static const double values[] = {
        0.0, -0.0, 1.0, -1.5, 0.1, 1e-300, 1e300, 5e-324, -1.7976931348623157e308, INFINITY, -INFINITY, 123456789.125,
        4503599627370498.0, 9223372036854775807.0, -9223372036854775808.0, 3.5e38, 1e-40, 1.4e-45, 65504.0, 1e10, 2.5, 0.5,
    };
    int main(int argc, char **argv) {
        int count = sizeof values / sizeof *values;
        for (int i = 0; i < count; i++) {
            double x = values[i], y = values[(i + 7) % count];
            float a = x, b = y;
            printf("scale %f %e %g %.17g %.3f\n", x, x, x, y, y);
            double r = scale(x, y);
            printf("scale= %.17g %f\n", r, r);
            printf("narrow %f %.9g\n", a, b);
            float q = narrow(a, i, b);
            printf("narrow= %.9g\n", q);
            printf("eight %.17g %.9g %.17g %.9g %.17g %.9g %.17g %.9g\n", x, a, y, b, x, 2.5f, y, -0.0f);
            r = eight(x, a, y, b, x, 2.5f, y, -0.0f);
            printf("eight= %g\n", r);
            printf("mixed %d %g %s %g\n", i, x, "text", b);
            r = mixed(i, x, "text", b);
            printf("mixed= %g\n", r);
            printf("many %g %g\n", x, y);
            r = many(x, y, x, y, x, y, x, y, 1);
            printf("many= %g\n", r);
        }
        return 0;
    }
"#;

const SCRIPT: &str = r#"
    uprobe:APP:scale { printf("scale %f %e %g %.17g %.3f\n", farg0, farg0, farg0, farg1, farg1); }
    uretprobe:APP:scale { printf("scale= %.17g %f\n", fretval, fretval); }
    uprobe:APP:narrow { printf("narrow %f %.9g\n", (float)farg0, (float)farg1); }
    uretprobe:APP:narrow { printf("narrow= %.9g\n", (float)fretval); }
    uprobe:APP:eight {
        printf("eight %.17g %.9g %.17g %.9g ", farg0, (float)farg1, farg2, (float)farg3);
        printf("%.17g %.9g %.17g %.9g\n", farg4, (float)farg5, farg6, (float)farg7);
    }
    uretprobe:APP:eight { printf("eight= %g\n", fretval); }
    uprobe:APP:mixed { printf("mixed %d %g %s %g\n", arg0, farg0, str(arg1), (float)farg1); }
    uretprobe:APP:mixed { printf("mixed= %g\n", fretval); }
    uprobe:APP:many { printf("many %g %g\n", farg0, farg1); }
    uretprobe:APP:many { printf("many= %g\n", fretval); }
"#;

/// Runs `script`, in which APP is the program, on it: weir's own output, and the program's.
fn trace(program: &Path, script: &str) -> (String, String) {
    let program_text = format!("\"{}\"", program.display());
    let script = script.replace("APP", &program_text);
    let folder = testkit::paths::target().join("floats-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join(format!("{:?}-{}", std::thread::current().id(), std::process::id()));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-q", "-o"]).arg(&out).args(["-e", &script, "-c", &program_text]);
    let output = weir.output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    (text, String::from_utf8(output.stdout).unwrap())
}

/// A static probe whose arguments are in each place that a compiler may put a floating-point number.
const STATIC: &str = r#"
    #include <stdio.h>
    __asm__(".pushsection .stapsdt.base,\"a\",\"progbits\"\n_.stapsdt.base: .space 1\n.popsection\n");
    double kept;
    int main(void) {
        for (int i = 0; i < 20; i++) {
            double x = i * 1.25 - 3, bits = -1e100 * i;
            float y = i / 3.0f, z = 1e-40f * i;
            kept = x / 7;
            printf("%g %g %.17g %g %g %d\n", x, y, kept, bits, z, i);
            register double vector __asm__("xmm3") = x;
            register float narrow __asm__("xmm6") = y;
            __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
                ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                "993: .8byte 990b, _.stapsdt.base, 0\n.asciz \"weir\"\n.asciz \"floating\"\n"
                ".asciz \"8f@%0 4f@%1 8f@%2 8f@%3 -4f@%4 -4@%5\"\n994: .balign 4\n.popsection\n"
                : : "x"(vector), "x"(narrow), "m"(kept), "r"(bits), "m"(z), "r"(i));
        }
        return 0;
    }
"#;

#[test]
fn arguments_of_static_probes_are_what_the_program_prints() {
    let program = target::build("floats-static", Source::Text(STATIC), &["-O1"]);
    let script =
        r#"usdt:APP:floating { printf("%g %g %.17g %g %g %d\n", arg0, arg1, arg2, arg3, arg4, arg5); }"#;
    let (text, printed) = trace(&program, script);
    assert_eq!(text.trim_end(), printed.trim_end());
    assert_eq!(printed.lines().count(), 20);
}

fn program() -> PathBuf {
    target::build("floats", Source::Text(SOURCE), &["-O1"])
}

#[test]
fn arguments_and_results_are_what_the_program_prints() {
    for (variant, program) in target::matrix("floats", Source::Text(SOURCE), &[]) {
        let (text, printed) = trace(&program, SCRIPT);
        let plain = Command::new(&program).output().unwrap();
        assert_eq!(printed.as_bytes(), plain.stdout, "{variant:?}");
        for (ours, its) in text.lines().zip(printed.lines()) {
            assert_eq!(ours, its, "{variant:?}");
        }
        assert_eq!(text.trim_end().lines().count(), printed.lines().count(), "{variant:?}");
    }
}

#[test]
fn comparisons_and_casts_count_as_c_does() {
    let script = r#"
        uprobe:APP:scale { @n = count(); @positive += farg0 > 0; @sum = sum((int64)(farg0 > 1e18 ? 0.0 : farg0)); @last = farg0; }
        uprobe:APP:scale /farg0 == farg1/ { @equal = count(); }
        uprobe:APP:scale /farg0 >= 1 && farg0 < 3.0/ { @small = hist((int64)farg0); }
        uretprobe:APP:scale { @results[fretval > 0] = count(); }
    "#;
    let (text, _) = trace(&program(), script);
    // Of the 22 values 16 are above 0; those that a 64-bit integer holds are cut, −1.5 and 1.0 make
    // up for each other, and three become the least there is.
    let least = i64::MIN.wrapping_mul(3);
    let sum = least.wrapping_add(123_456_789 + 4_503_599_627_370_498 + 65504 + 10_000_000_000 + 2);
    for line in ["@n: 22", "@last: 0.5", "@positive: 16", &format!("@sum: {sum}")] {
        assert!(text.lines().any(|other| other == line), "no `{line}` in:\n{text}");
    }
    assert!(text.contains("@small:\n[1]                    1 |"), "{text}");
}
