"""What stands in for agents and hypervisors: everything else of the cloud is real."""
