#!/bin/sh
# A worker that will not run what it is asked.
read -r request
echo '{"answer":"refused","why":"no such knob"}'
read -r request
