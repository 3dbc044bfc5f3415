#include "runtime/Command.h"

int main(int argc, char **argv) { return mbc::runCommand(argc, argv); }
