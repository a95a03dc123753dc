#!/bin/sh
# A worker whose answer is none.
read -r request
echo hello
read -r request
