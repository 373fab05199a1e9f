// Hands each packet to the socket of its receive queue. What arrives at a queue without one goes
// to the host.

#include "xdp.h"

int redirect(struct packet *packet)
{
    return redirect_map(&sockets, packet->rx_queue_index, XDP_PASS);
}
