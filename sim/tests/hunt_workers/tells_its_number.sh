#!/bin/sh
# A worker that answers one task of each request, with its own number as the trace.
while read -r request; do
    echo '{"answer":"ran","seed":"0x7","verdict":"safe","kinds":[],"violations":[],"signature":"","trace":"'$$'","handovers":1,"faults-showed":1,"faults-inert":0,"steps":1}'
done
