/* A string of the traced program against a constant one, byte by byte. */
#include "bpf_helpers.h"

SEC("uprobe/lookup") int lookup(struct pt_regs *ctx)
{
	char text[8] = {};
	static const char wanted[8] = "passwd";
	if (bpf_probe_read_user_str(text, sizeof(text), (void *)PARM1(ctx)) < 0)
		return -1;
	for (int i = 0; i < 8; i++) {
		if (text[i] != ((volatile const char *)wanted)[i])
			return i;
		if (!text[i])
			break;
	}
	return 100;
}

char LICENSE[] SEC("license") = "GPL";
