/* Lengths that helpers take. */
#include "checks.h"

SEC("uprobe/read_so_much") int read_so_much(struct pt_regs *ctx)
{
	char text[64] = {};
	u64 length = PARM2(ctx);
	UNLESS(length <= sizeof(text));
	bpf_probe_read_user(text, length, (void *)PARM1(ctx));
	return text[0];
}

SEC("uprobe/read_so_much_32") int read_so_much_32(struct pt_regs *ctx)
{
	char text[64] = {};
	u32 length = PARM2(ctx);
	UNLESS(length <= sizeof(text));
	bpf_probe_read_user(text, length, (void *)PARM1(ctx));
	return text[3];
}

SEC("uprobe/read_signed") int read_signed(struct pt_regs *ctx)
{
	char text[64] = {};
	long length = PARM2(ctx);
	UNLESS(length > 0 && length < (long)sizeof(text));
	bpf_probe_read_user(text, length, (void *)PARM1(ctx));
	return text[1];
}

SEC("uprobe/output_what_was_read") int output_what_was_read(struct pt_regs *ctx)
{
	char text[64] = {};
	long length = bpf_probe_read_user_str(text, sizeof(text), (void *)PARM1(ctx));
	UNLESS(length > 0);
	bpf_ringbuf_output(&out, text, length, 0);
	return 0;
}

SEC("uprobe/output_int") int output_int(struct pt_regs *ctx)
{
	char text[64] = {};
	int length = bpf_probe_read_user_str(text, sizeof(text), (void *)PARM1(ctx));
	UNLESS(length > 0);
	bpf_ringbuf_output(&out, text, length, 0);
	return 0;
}

SEC("uprobe/append") int append(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 first = bpf_probe_read_user_str(e->bytes, 32, (void *)PARM1(ctx));
	UNLESS(first <= 32);
	bpf_probe_read_user_str(e->bytes + first, 32, (void *)PARM2(ctx));
	return first;
}

SEC("uprobe/rest_of_a_buffer") int rest_of_a_buffer(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u32 used = e->count;
	UNLESS(used < 64);
	bpf_probe_read_user(e->bytes + used, 1, (void *)PARM2(ctx));
	bpf_probe_read_user(e->bytes, used, (void *)PARM1(ctx));
	return used;
}

SEC("uprobe/length_kept") int length_kept(struct pt_regs *ctx)
{
	char text[64] = {};
	volatile u32 kept = PARM2(ctx);
	u32 length = kept;
	UNLESS(length <= sizeof(text));
	kept = length;
	bpf_get_current_pid_tgid();
	bpf_probe_read_user(text, kept, (void *)PARM1(ctx));
	return text[0];
}

SEC("uprobe/ternary") int ternary(struct pt_regs *ctx)
{
	char text[128] = {};
	u64 length = PARM2(ctx);
	length = BOUND(length, sizeof(text));
	bpf_probe_read_user(text, length, (void *)PARM1(ctx));
	return text[0];
}

char LICENSE[] SEC("license") = "GPL";
