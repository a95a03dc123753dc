#!/bin/sh
# A worker that says nothing, ever.
read -r request
exec sleep 600
