/* Runs a program of an object on a packet and prints what it returned and counted: embed FILE.bpf.o PROGRAM MAP */
#include <stdio.h>
#include <stdlib.h>
#include <weir/bpf.h>

static int fail(const char *what)
{
	fprintf(stderr, "embed: %s: %s\n", what, weir_bpf_error());
	return 1;
}

int main(int argc, char **argv)
{
	unsigned char packet[64] = {[12] = 0x08, [23] = 17}; /* an Ethernet frame: IPv4, UDP */
	uint64_t verdict, count;

	if (argc != 4) {
		fprintf(stderr, "usage: embed FILE.bpf.o PROGRAM MAP\n");
		return 2;
	}
	struct weir_bpf_object *object = weir_bpf_open_file(argv[1], NULL);
	if (!object)
		return fail("open");
	enum weir_bpf_engine engine = getenv("INTERPRETER") ? WEIR_BPF_INTERPRETER : WEIR_BPF_JIT;
	struct weir_bpf_program *program = weir_bpf_load(object, argv[2], engine, 0);
	if (!program)
		return fail(argv[2]);
	for (int n = 0; n < 3; n++)
		if (weir_bpf_run(program, packet, sizeof packet, &verdict) < 0)
			return fail("run");
	printf("r0 = %llu\n", (unsigned long long)verdict);

	int map = weir_bpf_map(object, argv[3]);
	for (uint32_t key = 0; weir_bpf_map_lookup(object, map, &key, &count) == 0; key++)
		if (count)
			printf("%u: %llu\n", key, (unsigned long long)count);
	weir_bpf_unload(program);
	weir_bpf_close(object);
	return 0;
}
