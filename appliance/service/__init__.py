"""The appliance as a service: who comes, who is let in, and the order of start and stop. See `service.Service`."""
