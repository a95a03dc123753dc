#!/bin/sh
# A worker that its first seed kills.
read -r request
kill -ABRT $$
