import sys

from groundling.cli import main

sys.exit(main())
