//! Memory by type, end to end: members of records as the script declares them, as debug information has them, and as the program prints them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use testkit::target::{self, Source};

/// What weir prints of the program's run, and what the program does. APP in the script is the program.
fn trace(program: &Path, script: &str) -> (String, String) {
    let script = script.replace("APP", &format!("\"{}\"", program.display()));
    let folder = testkit::paths::target().join("types-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join(format!("{:?}-{}", std::thread::current().id(), std::process::id()));
    let traced = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q", "-e", &script, "-o"])
        .arg(&out)
        .arg("-c")
        .arg(testkit::paths::quoted(program))
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}\n{script}", String::from_utf8_lossy(&traced.stderr));
    let printed = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    (printed, String::from_utf8(traced.stdout).unwrap())
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const SIGNED: [&str; 5] = ["signed char", "short", "int", "long", "long long"];
const UNSIGNED: [&str; 5] = ["unsigned char", "unsigned short", "unsigned", "unsigned long", "_Bool"];

/// A record's declaration, and what is printed of it: the conversion of C, and the member.
#[derive(Default)]
struct Declared {
    text: String,
    printed: Vec<(&'static str, String)>,
}

fn member(dice: &mut Dice, number: usize, earlier: &[Declared], record: &mut Declared) {
    let name = format!("m{number}");
    let mut add = |text: String, conversion, member: String| {
        record.text += &text;
        record.printed.push((conversion, member));
    };
    match dice.below(11) {
        0 | 1 => add(format!("{} {name}; ", dice.pick(&SIGNED)), "%ld", name),
        2 => add(format!("{} {name}; ", dice.pick(&UNSIGNED[..4])), "%lu", name),
        3 => add(format!("int {name} : {}; ", 1 + dice.below(32)), "%ld", name),
        4 => add(format!("unsigned {name} : {}; ", 1 + dice.below(32)), "%lu", name),
        5 => add(
            format!(
                "{} {name} : {}; ",
                dice.pick(&["unsigned long", "unsigned char", "unsigned short"]),
                1 + dice.below(8)
            ),
            "%lu",
            name,
        ),
        6 => add(format!("double {name}; "), "%.17g", name),
        7 => {
            let (outer, inner) = (1 + dice.below(3), 1 + dice.below(4));
            let element = format!("{name}[{}][{}]", dice.below(outer), dice.below(inner));
            add(format!("short {name}[{outer}][{inner}]; "), "%ld", element);
        }
        8 => add(format!("union {{ char {name}; unsigned {name}b; }}; "), "%lu", format!("{name}b")),
        9 if !earlier.is_empty() => {
            let index = dice.below(earlier.len());
            let (conversion, inner) = &earlier[index].printed[0];
            add(format!("struct s{index} {name}; "), conversion, format!("{name}.{inner}"));
        }
        _ => add(format!("int : {}; enum kind {name}; ", dice.below(33)), "%lu", name),
    }
}

fn records(dice: &mut Dice, count: usize) -> Vec<Declared> {
    let mut all: Vec<Declared> = Vec::new();
    for _ in 0..count {
        let mut record = Declared::default();
        for number in 0..1 + dice.below(8) {
            member(dice, number, &all, &mut record);
        }
        let attribute = match dice.below(4) {
            0 => " __attribute__((packed))",
            1 => " __attribute__((aligned(16)))",
            _ => "",
        };
        record.text = format!("struct s{} {{ {}}}{attribute};\n", all.len(), record.text);
        all.push(record);
    }
    all
}

/// Each record's members: the program prints them itself, weir by a cast to the script's own declaration, by `args`, and out of a copy.
#[test]
fn members_are_what_the_compiler_put_there() {
    let (seed, count) = testkit::random::seed_and_count("WEIR_TYPES", (22, 100));
    let mut dice = Dice(testkit::random::state(seed));
    let records = records(&mut dice, count as usize);
    let declared: String = records.iter().map(|record| record.text.as_str()).collect();
    let declared = format!("enum kind {{ A, B = 1 << 20, C = 0x7fffffff }};\n{declared}");
    let mut functions = String::new();
    let mut calls = String::new();
    let mut clauses = String::new();
    for (index, Declared { printed, .. }) in records.iter().enumerate() {
        let of = |from: &str| -> String {
            printed.iter().map(|(_, member)| format!(", {from}{member}")).collect()
        };
        let format: String = printed.iter().map(|(conversion, _)| format!(" {conversion}")).collect();
        let longs: String = printed
            .iter()
            .map(|(conversion, member)| {
                let cast = if conversion.ends_with('g') { "" } else { "(long)" };
                format!(", {cast}p->{member}")
            })
            .collect();
        writeln!(functions, "PROBED void f{index}(struct s{index} *p) {{ sink = p; }}").unwrap();
        writeln!(
            calls,
            "{{ static struct s{index} v; struct s{index} *p = &v; fill(p, sizeof *p); f{index}(p); \
             printf(\"{index} %zu{format}\\n\", sizeof *p{longs}); }}"
        )
        .unwrap();
        let sources = [
            (String::new(), format!("((struct s{index} *)arg0)->")),
            (String::new(), "args.p->".to_owned()),
            ("$v = *args.p; ".to_owned(), "$v.".to_owned()),
        ];
        for (first, from) in sources {
            writeln!(
                clauses,
                "uprobe:APP:f{index} {{ {first}printf(\"{index} %d{format}\\n\", sizeof(struct s{index}){}); }}",
                of(&from)
            )
            .unwrap();
        }
    }
    let source = format!(
        "#include <stdio.h>\n#define PROBED __attribute__((noipa))\n{declared}void *volatile sink;\nstatic unsigned state = 7;\n\
         static void fill(void *at, unsigned long bytes) {{\n  for (unsigned char *p = at; bytes--; p++) *p = (state = state * 1664525 + 1013904223) >> 23;\n}}\n\
         {functions}int main(void) {{\n{calls}return 0; }}\n"
    );
    let program = target::build("types-random", Source::Text(&source), &["-O1", "-g"]);
    let (printed, own) = trace(&program, &format!("{declared}{clauses}"));
    let thrice: String = own.lines().map(|line| format!("{line}\n{line}\n{line}\n")).collect();
    for (found, wanted) in printed.lines().zip(thrice.lines()) {
        assert_eq!(found, wanted, "{declared}");
    }
    assert_eq!(printed.trim_end(), thrice.trim_end());
}

const LIST: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    struct text { char *at; unsigned long length; };
    typedef struct { struct text name; unsigned flags; } header_t;
    struct node { struct node *next; header_t *header; char tag[8]; int counts[3]; double weight; float share; };
    __attribute__((noipa)) long walk(struct node *list, const char *why, unsigned long n) { return n + list->counts[0] + (why != 0); }
    int main(void) {
        struct node *list = 0;
        static const char *const names[] = { "last", "middle", "first" };
        for (int i = 0; i < 3; i++) {
            struct node *node = calloc(1, sizeof *node);
            header_t *header = calloc(1, sizeof *header);
            *header = (header_t){ { (char *)names[i], 4 + i }, 0x80000000u + i };
            *node = (struct node){ list, header, "12345678", { i, -i, i * 100 }, i / 2.0, 0.25f * i };
            list = node;
        }
        printf("%ld\n", walk(list, "because", 2));
        return 0;
    }
"#;

#[track_caller]
fn check_list(script: &str, wanted: &str) {
    let program = target::build("types-list", Source::Text(LIST), &["-O1", "-g"]);
    let (printed, _) = trace(&program, script);
    // Where the program has its text is another place each time.
    let shown = printed.split("0x").enumerate().map(|(index, part)| match index {
        0 => part.to_owned(),
        _ => format!("0xNAME{}", part.trim_start_matches(|c: char| c.is_ascii_hexdigit())),
    });
    assert_eq!(shown.collect::<String>().trim_end(), wanted, "{script}");
}

#[test]
fn chains_of_pointers_are_followed() {
    let script = "uprobe:APP:walk {
        $n = args.list;
        while ($n != 0) {
            printf(\"%s %d %u|\", str($n->header->name.at), $n->counts[1], $n->header->flags);
            $n = $n->next;
        }
        printf(\"%s\\n\", str(args.why));
    }";
    check_list(script, "first -2 2147483650|middle -1 2147483649|last 0 2147483648|because");
}

#[test]
fn pointers_count_in_elements_and_arrays_end() {
    let script = "uprobe:APP:walk {
        $p = (int32 *)args.list->counts;
        $p += 1;
        printf(\"%d %d %d \", *$p, $p[1], *($p - 1));
        printf(\"%d %d \", args.list->counts[args.n], args.list->counts[args.n + 1]);
        printf(\"%s %.1f %.2f \", args.list->tag, args.list->weight, args.list->share);
        printf(\"%d %d\\n\", (uint64)args.list == arg0, args.list->next != args.list);
    }";
    check_list(script, "-2 200 2 200 0 12345678 1.0 0.50 1 1");
}

#[test]
fn pointers_are_kept_with_what_they_lead_to() {
    let script = "uprobe:APP:walk { @node[tid] = args.list; @seen[args.list->next->next] = 1; }
        uretprobe:APP:walk { printf(\"%s %d\\n\", str(@node[tid]->header->name.at), retval); clear(@node); clear(@seen); }";
    check_list(script, "first 5");
}

#[test]
fn what_is_null_or_unmapped_reads_as_nothing() {
    let script = "uprobe:APP:walk {
        $last = args.list->next->next;
        printf(\"<%s> %d <%s> %d\\n\", str($last->next->header->name.at), $last->next->counts[2], $last->next->tag, ((struct node *)16)->counts[0]);
    }";
    check_list(script, "<> 0 <> 0");
}

#[test]
fn types_are_found_by_their_names() {
    let script = "struct small { long a; int b; };
        uprobe:APP:walk {
            $h = (header_t *)((struct node *)arg0)->header;
            printf(\"%u %d %d %d %d\\n\", $h->flags, sizeof(header_t), offsetof(struct node, counts), sizeof(struct small), ((struct small *)$h)->b);
        }";
    check_list(script, "2147483650 24 24 16 6");
}

/// What the system's headers declare has the size that the compiler gives it, and macros have their values.
#[test]
fn headers_are_read_as_the_compiler_reads_them() {
    let headers = [
        "sys/socket.h",
        "sys/un.h",
        "netinet/in.h",
        "netinet/tcp.h",
        "netdb.h",
        "sys/stat.h",
        "sys/select.h",
        "sys/epoll.h",
        "pthread.h",
        "signal.h",
        "ucontext.h",
        "time.h",
        "dirent.h",
        "elf.h",
        "link.h",
        "limits.h",
        "stdio.h",
        "math.h",
        "linux/bpf.h",
        "linux/perf_event.h",
        "linux/if_ether.h",
        "linux/fuse.h",
    ];
    let types = [
        "struct sockaddr_in",
        "struct sockaddr_in6",
        "struct sockaddr_un",
        "struct sockaddr_storage",
        "struct msghdr",
        "struct tcp_info",
        "struct addrinfo",
        "struct hostent",
        "struct stat",
        "fd_set",
        "struct epoll_event",
        "pthread_mutex_t",
        "pthread_cond_t",
        "pthread_attr_t",
        "siginfo_t",
        "struct sigaction",
        "sigset_t",
        "ucontext_t",
        "struct tm",
        "struct timespec",
        "struct dirent",
        "Elf64_Ehdr",
        "Elf64_Shdr",
        "Elf64_Sym",
        "struct dl_phdr_info",
        "struct link_map",
        "FILE",
        "union bpf_attr",
        "struct bpf_prog_info",
        "struct bpf_insn",
        "struct perf_event_attr",
        "struct perf_event_mmap_page",
        "struct ethhdr",
        "struct fuse_init_out",
    ];
    let values = [
        "AF_INET6",
        "SOCK_STREAM",
        "IPPROTO_TCP",
        "S_IFDIR",
        "SIGUSR1",
        "PATH_MAX",
        "INT_MAX",
        "BPF_PROG_TYPE_TRACING",
        "SHT_SYMTAB",
        "ETH_P_IP",
        "EPOLLIN",
    ];
    let includes: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    let sizes: Vec<String> = types.iter().map(|ty| format!("sizeof({ty})")).collect();
    let all: Vec<&str> = sizes.iter().map(String::as_str).chain(values).collect();
    let source = format!(
        "#define _GNU_SOURCE\n{includes}int main(void) {{\n{}return 0; }}\n",
        all.iter()
            .map(|expr| format!("printf(\"%s %ld\\n\", \"{expr}\", (long)({expr}));\n"))
            .collect::<String>()
    );
    let program = target::build("types-headers", Source::Text(&source), &[]);
    let script = format!(
        "#define _GNU_SOURCE 1\n{includes}BEGIN {{\n{}exit(); }}\n",
        all.iter().map(|expr| format!("printf(\"%s %ld\\n\", \"{expr}\", {expr});\n")).collect::<String>()
    );
    let traced =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "-q", "-e", &script]).output().unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    assert_eq!(String::from_utf8_lossy(&traced.stdout).trim_end(), target::output(&program, "").trim_end());
}

const PEERS: &str = r#"
    #include <netinet/in.h>
    #include <arpa/inet.h>
    #include <stdio.h>
    #include <string.h>
    struct peer { struct sockaddr_in v4; struct sockaddr_in6 v6; unsigned char mac[6]; };
    __attribute__((noipa)) int meet(struct peer *peer) { return peer->mac[0]; }
    int main(void) {
        struct peer peer = { .mac = { 0x5e, 1, 2, 3, 4, 0xab } };
        peer.v4.sin_family = AF_INET; peer.v4.sin_port = htons(8080); inet_pton(AF_INET, "192.168.1.20", &peer.v4.sin_addr);
        peer.v6.sin6_family = AF_INET6; inet_pton(AF_INET6, "2001:db8::17", &peer.v6.sin6_addr);
        printf("%d\n", meet(&peer));
        return 0;
    }
"#;

#[test]
fn addresses_of_networks_are_read_where_they_lie() {
    let program = target::build("types-peers", Source::Text(PEERS), &["-O1", "-g"]);
    let script = "#include <netinet/in.h>
    struct peer { struct sockaddr_in v4; struct sockaddr_in6 v6; unsigned char mac[6]; };
    uprobe:APP:meet {
        $p = (struct peer *)arg0;
        printf(\"%s %d \", ntop($p->v4.sin_addr), bswap($p->v4.sin_port));
        printf(\"%s %s \", ntop($p->v4.sin_addr.s_addr), ntop(AF_INET, $p->v4.sin_addr.s_addr));
        printf(\"%s %s \", ntop($p->v6.sin6_addr), ntop($p->v6.sin6_family, $p->v6.sin6_addr.__in6_u.__u6_addr8));
        $copy = *args.peer;
        printf(\"%s %s %s %s\\n\", macaddr($p->mac), macaddr($copy.mac), ntop($copy.v6.sin6_addr), ntop($copy.v4.sin_addr));
    }";
    let (printed, _) = trace(&program, script);
    let wanted = "192.168.1.20 8080 192.168.1.20 192.168.1.20 2001:db8::17 2001:db8::17 5E:01:02:03:04:AB 5E:01:02:03:04:AB 2001:db8::17 192.168.1.20";
    assert_eq!(printed.trim_end(), wanted);
}

#[test]
fn records_and_arrays_are_values() {
    let script = "uprobe:APP:walk {
        $n = *args.list;
        print($n.counts);
        print($n.header->name);
        @node = $n;
        @by[args.list->counts] = args.list->next->counts;
        $t = (1, $n.counts);
        printf(\"%d %s %d %.1f %d %d\\n\", @node.counts[2], @node.tag, @by[$n.counts][1], $n.weight, $t.1[2], sizeof($n));
        clear(@node);
    }";
    check_list(
        script,
        "[2,-2,200]\n{ .at = 0xNAME, .length = 6 }\n200 12345678 -1 1.0 200 56\n\n\n@by[[2,-2,200]]: [1,-1,100]",
    );
}

const NESTED: &str = r#"
    struct in { int a; char pad; };
    typedef struct { short x, y; } point_t;
    struct out { struct in in; int t; struct in arr[2]; point_t points[2]; union { long l; struct { char lo, hi; }; }; long double ld; };
    __attribute__((noipa)) int show(struct out *out) { __asm__ volatile("nop; nop; nop; nop"); return out->t; }
    __attribute__((noipa)) int table(int n, int (*m)[n]) { return m[1][0]; }
    int main(void) {
        struct out out = { { 1, 'x' }, 2, { { 3, 'y' }, { 4, 'z' } }, { { 5, 6 }, { 7, 8 } }, { 0x0201 }, 1 };
        int numbers[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
        return show(&out) + table(3, numbers) == 7;
    }
"#;

/// Of a record that debug information has nothing is left out that the script does not name itself.
#[test]
fn records_are_printed_with_all_that_is_in_them() {
    let program = target::build("types-nested", Source::Text(NESTED), &["-O1", "-g"]);
    let (printed, _) = trace(&program, "uprobe:APP:show { print(*args.out); print(args.out->arr); }");
    let (record, array) = printed.trim_end().split_once('\n').unwrap();
    let wanted = "{ .in = { .a = 1, .pad = 120 }, .t = 2, .arr = [{ .a = 3, .pad = 121 },{ .a = 4, .pad = 122 }], \
                  .points = [{ .x = 5, .y = 6 },{ .x = 7, .y = 8 }], .l = 513, .lo = 1, .hi = 2, .ld = ? }";
    assert_eq!(record, wanted);
    assert_eq!(array, "[{ .a = 3, .pad = 121 },{ .a = 4, .pad = 122 }]");
}

#[test]
fn elements_of_a_size_that_is_not_known_are_refused() {
    let program = target::build("types-nested", Source::Text(NESTED), &["-O1", "-g"]);
    let script = format!("uprobe:\"{}\":table {{ print(args.m[1][0]); }}", program.display());
    let traced = Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(!traced.status.success() && said.contains("the size of `int32[0]` is not known"), "{said}");
}

const BYTES: &str = r#"
    struct packet { unsigned char mark[4]; char name[8]; int length; };
    __attribute__((noipa)) int sent(struct packet *p, unsigned char *data, unsigned long n) { __asm__ volatile("nop; nop; nop; nop"); return p->length; }
    __attribute__((noipa)) int started(char **words, char **none) { __asm__ volatile("nop; nop; nop; nop"); return words[0] != none[0]; }
    int main(void) {
        struct packet packet = { { 0, 'a', 0xff, 9 }, "ab\0cdefg", 7 };
        unsigned char data[] = { 'G', 'E', 'T', 0, 1, 2, 0x80, ' ' };
        sent(&packet, data, 5);
        packet.mark[3] = 10;
        sent(&packet, data, 1 << 20);
        char *words[] = { "ls", "-l", "", "a b\n", 0, "behind" }, *none[] = { 0 };
        char *many[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", 0 };
        started(words, none);
        return started(many, none) != 1;
    }
"#;

#[test]
fn bytes_and_lists_of_strings_are_read() {
    let program = target::build("types-bytes", Source::Text(BYTES), &["-O1", "-g"]);
    let script = "config = { max_strlen = 16; }
    uprobe:APP:sent {
        $p = args.p;
        $copy = *$p;
        $n = args.n;
        printf(\"%r|%rx|%rh|%r|%r|%r\\n\", buf(args.data, $n), buf($p->mark), buf($copy.mark), buf($p->name, 4), buf(args.data, 3), buf($p, 5));
        print((buf(args.data, 3) == buf(\"GET\"), buf(args.data, $n) == buf(args.data, 5), memcmp($p->mark, $copy.mark, 4), memcmp($p->name, buf(\"ab\", 8), 8)));
        @[buf($p->mark)] = count();
        @strings[str_concat($p->name, str(args.data))] = strstr(str(args.data), \"ET\");
        print((strcap($p->name), strcap((char *)args.data)));
    }
    uprobe:APP:started { join(args.words); join(args.none); join(arg0, \", \"); join((char **)8); }";
    let (printed, _) = trace(&program, script);
    let wanted = "\
GET\\x00\\x01|\\x00\\x61\\xff\\x09|00 61 ff 09|ab\\x00c|GET|\\x00a\\xff\\x09a
(1, 1, 0, 1)
(8, 3)
GET\\x00\\x01\\x02\\x80 LATER|\\x00\\x61\\xff\\x0a|00 61 ff 0a|ab\\x00c|GET|\\x00a\\xff\\x0aa
(1, 0, 0, 1)
(8, 3)
ls -l  a b\\n

ls, -l, , a b\\n

1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16

1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16



@[\\x00a\\xff\\x09]: 1
@[\\x00a\\xff\\x0a]: 1
@strings[abGET]: 1";
    // What lies behind the data in memory is not the same everywhere.
    let later = printed.find("\\x80 ").map(|at| at + 5).expect("the longer buffer");
    let end = later + printed[later..].find('|').expect("the next one");
    let printed = format!("{}LATER{}", &printed[..later], &printed[end..]);
    assert_eq!(printed.trim_end(), wanted);
}

#[test]
fn a_header_that_is_no_file_is_refused() {
    let folder = testkit::paths::target().join("types-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join(format!("pipe-{}.h", std::process::id()));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let script = format!("#include \"{}\"\nBEGIN {{ exit(); }}", pipe.display());
    let traced = Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script]).output().unwrap();
    std::fs::remove_file(&pipe).unwrap();
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(!traced.status.success() && said.contains("it is no file"), "{said}");
}

#[test]
fn members_lead_to_what_contains_them() {
    let source = r#"
        struct item { int id; struct link { struct link *next; } link; char name[8]; };
        __attribute__((noipa)) int handle(struct link *link) { return link != 0; }
        int main(void) {
            struct item second = { 2, { 0 }, "second" }, first = { 1, { &second.link }, "first" };
            return !handle(&first.link);
        }
    "#;
    let program = target::build("containers", Source::Text(source), &["-O1", "-g"]);
    let script = r#"
        uprobe:APP:handle {
            let $item: typeof(container_of(args.link, struct item, link));
            $item = container_of(args.link, typeof(*$item), link);
            printf("%d %s\n", $item->id, $item->name);
            $next = container_of($item->link.next, struct item, link);
            printf("%d %s %d\n", $next->id, $next->name, sizeof(typeof($next->name)));
            if comptime (typeinfo($next) == typeinfo(struct item *)) { printf("%s\n", typeinfo($next->id).full_type); }
        }
    "#;
    assert_eq!(trace(&program, script).0.trim_end(), "1 first\n2 second 8\nint32");
}

const STATES: &str = r#"
    #include <stdio.h>
    enum state { IDLE, BUSY = 5, DONE };
    struct job { enum state st; enum state last : 4; int n; };
    __attribute__((noipa)) int go(struct job *job, enum state state, char *text, int length, unsigned short port) {
        __asm__ volatile("nop; nop; nop; nop");
        return job->n + state + text[0] + length + port;
    }
    int main(void) { struct job job = { BUSY, DONE, 3 }; char text[] = "hello"; printf("%d\n", go(&job, DONE, text, 3, 0x1234)); return 0; }
"#;

#[test]
fn values_of_enumerations_have_names() {
    let program = target::build("types-states", Source::Text(STATES), &["-O1", "-g"]);
    let declared = "enum state { IDLE, BUSY = 5, DONE }; struct job { enum state st; enum state last : 4; int n; };
    uprobe:APP:go {
        $j = (struct job *)arg0; print($j->st); print(*$j); @[$j->st] = count(); @v = $j->st; @s = sum($j->st);
        printf(\"%s %d %s\\n\", $j->st, $j->st, $j->last); print(($j->st + 1, $j->st == BUSY, sizeof($j->st), $j->st));
        $e = (enum state)arg1; print($e); $j->st ? print(\"yes\") : print(\"no\");
    }";
    let wanted = "BUSY\n{ .st = BUSY, .last = DONE, .n = 3 }\nBUSY 5 DONE\n(6, 1, 4, BUSY)\nDONE\nyes\n\n\n@[BUSY]: 1\n@s: 5\n@v: BUSY";
    assert_eq!(trace(&program, declared).0.trim(), wanted);
    let found = "uprobe:APP:go {
        print((args.job->st, args.state, (enum state)arg1)); print(*args.job); @[args.state, args.job->st] = count();
        let $e: enum state = args.state; print($e); print(((typeof(args.state))0, args.state == 6, sizeof(args.state)));
    }";
    let wanted =
        "(BUSY, DONE, DONE)\n{ .st = BUSY, .last = DONE, .n = 3 }\nDONE\n(IDLE, 1, 4)\n\n\n@[DONE, BUSY]: 1";
    assert_eq!(trace(&program, found).0.trim(), wanted);
}

#[test]
fn the_length_of_a_string_counts_its_end() {
    let program = target::build("types-states", Source::Text(STATES), &["-O1", "-g"]);
    let script = "uprobe:APP:go {
        printf(\"%s|%s|%s|\\n\", str(arg2, 3), str(arg2, 1), str(arg2, 0));
        printf(\"%s|%s|%s|%s|\\n\", str(arg2, arg3), str(arg2, arg3 - 2), str(arg2, arg3 - 3), str(arg2, arg3 - 4));
        printf(\"%s|%s|%s|\\n\", str(arg2, 6), str(arg2, 5), str(arg2)); @ = str(arg2, 3);
        print((sizeof(str(arg2, 3)), sizeof(str(arg2, 0)), sizeof(str(arg2)), sizeof(str(arg2, arg3))));
    }";
    // As bpftrace 0.23.2 prints them.
    let wanted = "he|||\nhe|||hello|\nhello|hell|hello|\n(3, 0, 1024, 1024)\n\n\n@: he";
    assert_eq!(trace(&program, script).0.trim(), wanted);
}

#[test]
fn bytes_are_swapped_as_they_were_declared() {
    let program = target::build("types-states", Source::Text(STATES), &["-O1", "-g"]);
    let script = "uprobe:APP:go { $p = args.port; $a = args; print((bswap(args.port), bswap($p), bswap($a.port), sizeof($p))); }";
    assert_eq!(trace(&program, script).0.trim(), "(13330, 13330, 13330, 2)");
}
