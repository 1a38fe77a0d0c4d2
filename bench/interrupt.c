/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <signal.h>

volatile bool nb_interrupted;

static void note(int signal)
{
    (void)signal;
    nb_interrupted = true;
}

void nb_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGINT, &action, 0);
    sigaction(SIGTERM, &action, 0);
}
