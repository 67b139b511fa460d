/* A kernel variable that may not be there, and is not: its address is 0. */
#include "bpf_helpers.h"

extern const u64 not_there __ksym __weak;

SEC("uprobe/f") int f(struct pt_regs *ctx)
{
	return &not_there ? 1 : 2;
}

char LICENSE[] SEC("license") = "GPL";
