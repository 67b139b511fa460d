/* An application that forwards packets between two ports, with as much of DPDK as libweir_dpdk.so looks for: its own, so that tests need
 * no DPDK. What it shows behaves as DPDK's documentation says; struct rte_mbuf is that of 22.11 to 25.11.
 *
 * application SOCKET PLUGIN [shared]: answers as DPDK's telemetry does on SOCKET. Standard input: `run N` (N bursts a thread, then a line
 * of counts), `go` (bursts until `halt`, which prints the counts), `callbacks` (how many there are), `quit`. One thread forwards from
 * port 0 to port 1, one back; with `shared`, both send on port 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PORTS 2
#define BURST 32
#define RX_HASH (1ull << 1)
#define RX_STRIPPED (1ull << 6)
#define RX_GOOD (1ull << 8)
#define TX_TCP_CKSUM (1ull << 52)
#define DYNFLAG 23

struct mbuf {
    uint8_t *buf_addr;
    uint64_t buf_iova;
    uint16_t data_off, refcnt, nb_segs, port;
    uint64_t ol_flags;
    uint32_t packet_type, pkt_len;
    uint16_t data_len, vlan_tci;
    uint32_t rss, hash_upper;
    uint16_t vlan_tci_outer, buf_len;
    void *pool;
    struct mbuf *next;
    uint64_t rest[7];
} __attribute__((aligned(64)));

/* What is shown to the plugin. */

typedef uint16_t (*rx_fn)(uint16_t, uint16_t, struct mbuf **, uint16_t, uint16_t, void *);
typedef uint16_t (*tx_fn)(uint16_t, uint16_t, struct mbuf **, uint16_t, void *);

struct callback {
    struct callback *_Atomic next;
    rx_fn rx;
    tx_fn tx;
    void *argument;
};

static struct callback *_Atomic rx_callbacks[PORTS], *_Atomic tx_callbacks[PORTS];
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const char *rte_version(void) {
    const char *version = getenv("FAKE_DPDK_VERSION");
    return version ? version : "DPDK 22.11.11";
}

static struct callback *added(struct callback *_Atomic *list, int first, rx_fn rx, tx_fn tx, void *argument) {
    struct callback *callback = calloc(1, sizeof *callback);
    callback->rx = rx;
    callback->tx = tx;
    callback->argument = argument;
    pthread_mutex_lock(&adding);
    if (first) {
        callback->next = *list;
    } else {
        while (*list)
            list = &(*list)->next;
    }
    *list = callback;
    pthread_mutex_unlock(&adding);
    return callback;
}

static int removed(struct callback *_Atomic *list, const void *callback) {
    int found = 0;
    pthread_mutex_lock(&adding);
    for (; *list && !found; list = found ? list : &(*list)->next) {
        if (*list == callback) {
            *list = (*list)->next;
            found = 1;
        }
        if (!*list)
            break;
    }
    pthread_mutex_unlock(&adding);
    return found ? 0 : -22;
}

const void *rte_eth_add_first_rx_callback(uint16_t port, uint16_t queue, rx_fn fn, void *argument) {
    return port < PORTS && queue == 0 ? added(&rx_callbacks[port], 1, fn, NULL, argument) : NULL;
}

const void *rte_eth_add_tx_callback(uint16_t port, uint16_t queue, tx_fn fn, void *argument) {
    return port < PORTS && queue == 0 ? added(&tx_callbacks[port], 0, NULL, fn, argument) : NULL;
}

int rte_eth_remove_rx_callback(uint16_t port, uint16_t queue, const void *callback) {
    return port < PORTS && queue == 0 ? removed(&rx_callbacks[port], callback) : -22;
}

int rte_eth_remove_tx_callback(uint16_t port, uint16_t queue, const void *callback) {
    return port < PORTS && queue == 0 ? removed(&tx_callbacks[port], callback) : -22;
}

void rte_free(void *memory) {
    free(memory);
}

struct alarm {
    uint64_t us;
    void (*fn)(void *);
    void *argument;
};

static void *alarm_thread(void *memory) {
    struct alarm alarm = *(struct alarm *)memory;
    free(memory);
    /* An alarm is what is asked for; no verdict depends on when it comes. */
    usleep(alarm.us);
    alarm.fn(alarm.argument);
    return NULL;
}

int rte_eal_alarm_set(uint64_t us, void (*fn)(void *), void *argument) {
    struct alarm *alarm = malloc(sizeof *alarm);
    pthread_t thread;
    *alarm = (struct alarm){us, fn, argument};
    pthread_create(&thread, NULL, alarm_thread, alarm);
    pthread_detach(thread);
    return 0;
}

const void *__rte_pktmbuf_read(const struct mbuf *packet, uint32_t offset, uint32_t bytes, void *out) {
    uint8_t *to = out;
    if (offset + bytes > packet->pkt_len)
        return NULL;
    for (; bytes > 0 && packet; packet = packet->next) {
        if (offset >= packet->data_len) {
            offset -= packet->data_len;
            continue;
        }
        uint32_t part = packet->data_len - offset < bytes ? packet->data_len - offset : bytes;
        memcpy(to, packet->buf_addr + packet->data_off + offset, part);
        to += part;
        bytes -= part;
        offset = 0;
    }
    return out;
}

struct name {
    uint64_t flag;
    const char *name;
};

static const char *named(const struct name *names, uint64_t flag) {
    for (; names->name; names++)
        if (names->flag == flag)
            return names->name;
    return NULL;
}

const char *rte_get_rx_ol_flag_name(uint64_t flag) {
    static const struct name names[] = {{RX_HASH, "RTE_MBUF_F_RX_RSS_HASH"}, {RX_STRIPPED, "RTE_MBUF_F_RX_VLAN_STRIPPED"},
        {RX_GOOD, "RTE_MBUF_F_RX_L4_CKSUM_GOOD"}, {1 << 15, "RTE_MBUF_F_RX_QINQ_STRIPPED"},
        {1 << 16, "RTE_MBUF_F_RX_LRO"}, {0, NULL}};
    return named(names, flag);
}

const char *rte_get_tx_ol_flag_name(uint64_t flag) {
    static const struct name names[] = {{1ull << 42, "RTE_MBUF_F_TX_UDP_SEG"}, {1ull << 49, "RTE_MBUF_F_TX_QINQ"},
        {1ull << 50, "RTE_MBUF_F_TX_TCP_SEG"}, {1ull << 57, "RTE_MBUF_F_TX_VLAN"}, {0, NULL}};
    return named(names, flag);
}

int rte_mbuf_dynfield_register(const void *field) {
    (void)field;
    return 96;
}

int rte_mbuf_dynflag_register(const void *flag) {
    (void)flag;
    return DYNFLAG;
}

/* Telemetry. */

struct answer {
    char text[8192];
};

typedef int (*command_fn)(const char *, const char *, struct answer *);

static struct {
    const char *name;
    command_fn fn;
} commands[16];
static int commands_count;

int rte_telemetry_register_cmd(const char *name, command_fn fn, const char *help) {
    (void)help;
    commands[commands_count].name = strdup(name);
    commands[commands_count++].fn = fn;
    return 0;
}

int rte_tel_data_string(struct answer *answer, const char *text) {
    char *to = answer->text;
    *to++ = '"';
    for (; *text && to < answer->text + sizeof answer->text - 4; text++) {
        if (*text == '"' || *text == '\\')
            *to++ = '\\';
        *to++ = *text;
    }
    *to++ = '"';
    *to = 0;
    return 0;
}

static void answer_to(char *request, char *out, size_t size) {
    struct answer answer = {"null"};
    char *name = strtok_r(request, ",", &request), *parameters = strtok_r(NULL, "", &request);
    int port = parameters ? atoi(parameters) : 0;
    if (!strcmp(name, "/ethdev/list"))
        strcpy(answer.text, "[0,1]");
    else if (!strcmp(name, "/ethdev/info"))
        snprintf(answer.text, sizeof answer.text,
            "{\"name\":\"net_fake%d\",\"nb_rx_queues\":1,\"nb_tx_queues\":1,\"mac_addr\":\"02:00:00:00:00:0%d\"}", port, port);
    else if (!strcmp(name, "/ethdev/link_status"))
        strcpy(answer.text, "{\"status\":\"UP\",\"speed\":10000,\"duplex\":\"full-duplex\"}");
    for (int at = 0; at < commands_count; at++)
        if (!strcmp(name, commands[at].name) && commands[at].fn(name, parameters, &answer) < 0)
            strcpy(answer.text, "null");
    snprintf(out, size, "{\"%s\":%s}", name, answer.text);
}

static void *client(void *argument) {
    int fd = (int)(intptr_t)argument;
    static _Thread_local char request[1024], out[16384];
    int length = snprintf(out, sizeof out, "{\"version\":\"%s\",\"pid\":%d,\"max_output_len\":16384}", rte_version(), getpid());
    while (send(fd, out, length, MSG_NOSIGNAL) > 0 && (length = recv(fd, request, sizeof request - 1, 0)) > 0) {
        request[length] = 0;
        answer_to(request, out, sizeof out);
        length = strlen(out);
    }
    close(fd);
    return NULL;
}

static void *server(void *argument) {
    int listening = (int)(intptr_t)argument, fd;
    pthread_t thread;
    while ((fd = accept(listening, NULL, NULL)) >= 0) {
        pthread_create(&thread, NULL, client, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
    return NULL;
}

/* Forwarding. */

static atomic_ullong received[PORTS], sent[PORTS];
static atomic_int is_going, is_shared;

struct forwarder {
    int from, to;
    unsigned long bursts;
    uint32_t number;
    struct mbuf packets[BURST], second[BURST];
    uint8_t bytes[BURST][160], more[BURST][160];
};

static struct forwarder forwarders[2] = {{.from = 0, .to = 1}, {.from = 1, .to = 0}};

/* Packet `number` of a port: Ethernet, IPv4, TCP to port 80 (1 in 4: UDP), and its number in the last four bytes. 1 in 4 has had a VLAN
 * tag, of VLAN 5, and 1 in 4 is in two segments, cut in the IPv4 header. UDP packets have at byte 60 the time of CLOCK_REALTIME before they
 * came. */
static void receive(struct forwarder *forwarder, int at, uint64_t now) {
    uint32_t number = forwarder->number++;
    struct mbuf *packet = &forwarder->packets[at], *second = &forwarder->second[at];
    uint8_t *bytes = forwarder->bytes[at] + 32;
    int kind = number % 4, length = kind == 1 ? 100 : kind == 3 ? 120 : 60;
    memset(bytes, 0, length);
    bytes[5] = forwarder->from + 1;
    bytes[12] = 8;
    bytes[14] = 0x45;
    bytes[17] = length - 14;
    bytes[22] = 64;
    bytes[23] = kind == 1 ? 17 : 6;
    bytes[37] = 80;
    memcpy(bytes + length - 4, &number, 4);
    if (kind == 1)
        memcpy(bytes + 60, &now, 8);
    memset(packet, 0, sizeof *packet);
    packet->buf_addr = forwarder->bytes[at];
    packet->data_off = 32;
    packet->nb_segs = 1;
    packet->pkt_len = packet->data_len = length;
    packet->port = forwarder->from;
    packet->ol_flags = RX_HASH | (number % 8 == 0 ? RX_GOOD : 0);
    packet->rss = number;
    if (kind == 2) {
        packet->ol_flags |= RX_STRIPPED | 1;
        packet->vlan_tci = 5;
    } else if (kind == 3) {
        memset(second, 0, sizeof *second);
        second->buf_addr = forwarder->more[at];
        second->data_off = 8;
        second->data_len = length - 20;
        memcpy(forwarder->more[at] + 8, bytes + 20, length - 20);
        memset(bytes + 20, 0xee, length - 20);
        packet->data_len = 20;
        packet->nb_segs = 2;
        packet->next = second;
    }
}

static void burst(struct forwarder *forwarder) {
    struct mbuf *packets[BURST];
    int count = 1 + forwarder->number % BURST, to = is_shared ? 1 : forwarder->to;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int at = 0; at < count; at++) {
        receive(forwarder, at, now.tv_sec * 1000000000ull + now.tv_nsec);
        packets[at] = &forwarder->packets[at];
    }
    atomic_fetch_add_explicit(&received[forwarder->from], count, memory_order_relaxed);
    for (struct callback *each = rx_callbacks[forwarder->from]; each; each = each->next)
        count = each->rx(forwarder->from, 0, packets, count, BURST, each->argument);
    for (int at = 0; at < count; at++) {
        packets[at]->ol_flags &= 1ull << DYNFLAG;
        packets[at]->ol_flags |= packets[at]->rss % 4 == 0 ? TX_TCP_CKSUM : 0;
    }
    atomic_fetch_add_explicit(&sent[to], count, memory_order_relaxed);
    for (struct callback *each = tx_callbacks[to]; each; each = each->next)
        count = each->tx(to, 0, packets, count, each->argument);
}

static void *forward(void *argument) {
    struct forwarder *forwarder = argument;
    for (unsigned long done = 0; forwarder->bursts ? done < forwarder->bursts : is_going; done++)
        burst(forwarder);
    return NULL;
}

static void report(void) {
    printf("rx0=%llu tx0=%llu rx1=%llu tx1=%llu\n", received[0], sent[0], received[1], sent[1]);
}

static int callbacks(void) {
    int count = 0;
    pthread_mutex_lock(&adding);
    for (int port = 0; port < PORTS; port++) {
        for (struct callback *each = rx_callbacks[port]; each; each = each->next)
            count++;
        for (struct callback *each = tx_callbacks[port]; each; each = each->next)
            count++;
    }
    pthread_mutex_unlock(&adding);
    return count;
}

int main(int count, char **arguments) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_t thread, threads[2];
    char line[128];
    if (count < 3)
        return 2;
    is_shared = count > 3;
    if (*arguments[2] && !dlopen(arguments[2], RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    strncpy(address.sun_path, arguments[1], sizeof address.sun_path - 1);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 8)) {
        perror(arguments[1]);
        return 1;
    }
    pthread_create(&thread, NULL, server, (void *)(intptr_t)listening);
    // As DPDK calls it.
    pthread_setname_np(thread, "telemetry-v2");
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        unsigned long bursts = strtoul(line + 4, NULL, 10);
        if (!strncmp(line, "run ", 4) || !strncmp(line, "go", 2)) {
            is_going = 1;
            for (int at = 0; at < 2; at++) {
                forwarders[at].bursts = *line == 'r' ? bursts : 0;
                pthread_create(&threads[at], NULL, forward, &forwarders[at]);
            }
        }
        if (!strncmp(line, "go", 2))
            puts("going");
        if (!strncmp(line, "run ", 4) || !strncmp(line, "halt", 4)) {
            is_going = 0;
            pthread_join(threads[0], NULL);
            pthread_join(threads[1], NULL);
            report();
        }
        if (!strncmp(line, "callbacks", 9))
            printf("%d\n", callbacks());
        if (!strncmp(line, "quit", 4))
            break;
    }
    return 0;
}
